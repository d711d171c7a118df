export const KEY_NAME_LENGTH = 100
/** One line of visible text, without blanks around it. */
export const KEY_NAME_PATTERN = '^(?=\\S)[^\\p{Cc}\\p{Cf}]*(?<=\\S)$'

const NAME = new RegExp(KEY_NAME_PATTERN, 'u')

export function isKeyName(text: string): boolean {
  return text.length >= 1 && [...text].length <= KEY_NAME_LENGTH && text.isWellFormed() && NAME.test(text)
}

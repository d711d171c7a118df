/** Copies of one mail, at most: an operator cannot flood a mailbox. */
export const MAX_COPIES = 5

const SUFFIX = /\.copy[1-9]$/
/** The end of a copy's id. */
export const COPY_PATTERN = `\\.copy[1-${MAX_COPIES}]`

/** The id of the number-th copy of a mail, which is also that of its Message-ID. */
export function copyId(eventId: string, number: number): string {
  return `${eventId}.copy${number}`
}

export function isCopy(eventId: string): boolean {
  return SUFFIX.test(eventId)
}

/** The mail that this is a copy of, or the mail itself. */
export function originalOf(eventId: string): string {
  return eventId.replace(SUFFIX, '')
}

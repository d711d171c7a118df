/** The most copies of a mail, so an operator cannot flood a mailbox. */
export const MAX_COPIES = 5

const SUFFIX = /\.copy[1-9]$/
/** A pattern for the end of a copy's id. */
export const COPY_PATTERN = `\\.copy[1-${MAX_COPIES}]`

/** The id of a mail's copy with this number. The Message-ID uses it, too. */
export function copyId(eventId: string, number: number): string {
  return `${eventId}.copy${number}`
}

export function isCopy(eventId: string): boolean {
  return SUFFIX.test(eventId)
}

/** The id of the mail that this is a copy of, or the id itself. */
export function originalOf(eventId: string): string {
  return eventId.replace(SUFFIX, '')
}

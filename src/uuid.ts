/** A UUID as the store writes it: the text form of RFC 9562 in small letters, as the source of a regular expression. */
export const UUID_PATTERN = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}'

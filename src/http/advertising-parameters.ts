/** Names of query parameters that advertisers, mail programs and social networks add to links, as a regular expression. Varnish drops the same. */
export const ADVERTISING_PARAMETERS =
  'utm_[^=&]*|gclid|gclsrc|gbraid|wbraid|dclid|gad_source|gad_campaignid|srsltid|fbclid|msclkid|ttclid|twclid|li_fat_id|igshid|igsh|yclid|ysclid|epik|mc_cid|mc_eid|_ga|_gl|_hsenc|_hsmi|mkt_tok'

const NAME = new RegExp(`^(?:${ADVERTISING_PARAMETERS})$`)

/** Removes them from the parameters of a query. */
export function dropAdvertisingParameters(query: Record<string, unknown>): void {
  for (const name of Object.keys(query)) if (NAME.test(name)) delete query[name]
}

/**
 * The address without them: each click has a value of its own, and the answer does not depend on it. A further question mark is part of a
 * value, and stays: two addresses that become one must have one answer. The router divides at a bare `#`, too.
 */
export function withoutAdvertisingParameters(url: string): string {
  const start = url.search(/[?#]/)
  if (start < 0) return url
  const pairs = url
    .slice(start + 1)
    .split('&')
    .filter((pair) => !NAME.test(pair.split('=', 1)[0] ?? ''))
    .join('&')
  return pairs === '' ? url.slice(0, start) : `${url.slice(0, start + 1)}${pairs}`
}

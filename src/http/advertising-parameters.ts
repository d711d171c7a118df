/** Names of query parameters that advertisers, mail programs and social networks add to links, as a regular expression. Varnish drops the same. */
export const ADVERTISING_PARAMETERS =
  'utm_[^=&]*|gclid|gclsrc|gbraid|wbraid|dclid|gad_source|gad_campaignid|srsltid|fbclid|msclkid|ttclid|twclid|li_fat_id|igshid|igsh|yclid|ysclid|epik|mc_cid|mc_eid|_ga|_gl|_hsenc|_hsmi|mkt_tok'

const NAME = new RegExp(`^(?:${ADVERTISING_PARAMETERS})$`)
const IN_ADDRESS = new RegExp(`(?<=[?&])(?:${ADVERTISING_PARAMETERS})(?:=[^&]*)?(?:&|$)`, 'g')

/** Removes them from the parameters of a query. */
export function dropAdvertisingParameters(query: Record<string, unknown>): void {
  for (const name of Object.keys(query)) if (NAME.test(name)) delete query[name]
}

/** The address without them: each click has a value of its own, and the answer does not depend on it. */
export function withoutAdvertisingParameters(url: string): string {
  return url.includes('?') ? url.replace(IN_ADDRESS, '').replace(/[?&]$/, '') : url
}

/**
 * The address with settings for the session behind those that it has itself: of two for one setting PostgreSQL takes the last.
 * In the address, because `pg` forgets an `options` that stands beside an address with `options`.
 */
export function withSessionSettings(url: string, settings: Readonly<Record<string, string>>): string {
  const address = new URL(url)
  const own = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`)
  address.searchParams.set('options', [address.searchParams.get('options') ?? '', ...own].join(' ').trim())
  return address.href
}

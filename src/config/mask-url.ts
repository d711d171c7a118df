const MASK = '***'
const SHOWN_PARAMETERS = ['sslmode', 'sslrootcert', 'host', 'port']

/** The address without its login and the values of its query, which may contain a password. The role in an address of PostgreSQL stays. */
export function maskUrl(text: string): string {
  if (!/[:@]/.test(text)) return text
  if (!URL.canParse(text)) return MASK
  const url = new URL(text)
  // When an address is not written as one, its path may contain a login.
  if (url.pathname.includes('@') || !/^[a-z0-9+.-]+:\/\//i.test(text)) return `${url.protocol}${MASK}`
  if (url.password !== '') url.password = MASK
  if (url.username !== '' && !url.protocol.startsWith('postgres')) url.username = MASK
  for (const name of url.searchParams.keys()) if (!SHOWN_PARAMETERS.includes(name)) url.searchParams.set(name, MASK)
  url.hash = ''
  return url.href.replace(/\/$/, text.endsWith('/') ? '/' : '')
}

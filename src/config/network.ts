import { isIP } from 'node:net'
import { ConfigError } from './settings.ts'

const MAX_PROXIES = 10

/** `TRUST_PROXY`. Throws ConfigError. */
export function readTrustProxy(value: string | null): readonly string[] | number | false {
  if (value === null) return false
  if (/^\d+$/.test(value) && Number(value) >= 1 && Number(value) <= MAX_PROXIES) return Number(value)
  const networks = value.split(',').map((network) => network.trim())
  if (networks.every(isNetwork)) return networks
  throw new ConfigError(
    `TRUST_PROXY must list addresses and networks such as 10.0.0.0/8, or be a number of proxies from 1 to ${MAX_PROXIES}`,
  )
}

function isNetwork(text: string): boolean {
  const [address = '', prefix, ...rest] = text.split('/')
  const bits = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1
  return (
    rest.length === 0 && bits > 0 && (prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) >= 1 && Number(prefix) <= bits))
  )
}

/** `CORS_ORIGINS`. Throws ConfigError. */
export function readCorsOrigins(value: string | null): readonly string[] | '*' | null {
  if (value === null || value === '*') return value
  const origins = value.split(',').map((origin) => origin.trim())
  // The form that browsers send: no path, no default port, in lower case. Apps have their own schemes.
  const isOrigin = (text: string) =>
    /^[a-z][a-z0-9+.-]*:\/\/[^/?#@*\s]+$/.test(text) && URL.canParse(text) && isPlain(text, new URL(text).origin)
  const isPlain = (text: string, origin: string) => origin === text || (origin === 'null' && !text.startsWith('http'))
  if (origins.every(isOrigin)) return origins
  throw new ConfigError('CORS_ORIGINS must be *, or origins such as https://shop.example with commas between')
}

const CACHES = ['varnish:', 'fastly:', 'cloudflare:']

/** `CDN_PURGE_URL`. Throws ConfigError, which does not show the values: they may contain a token. */
export function readPurgeUrls(value: string | null): readonly string[] {
  const urls = (value ?? '')
    .split(',')
    .map((url) => url.trim())
    .filter((url) => url !== '')
  const isGood = (url: string) => {
    if (!URL.canParse(url)) return false
    const { protocol, hostname, password } = new URL(url)
    return CACHES.includes(protocol) && hostname !== '' && (protocol === 'varnish:' || password !== '')
  }
  if (urls.every(isGood)) return urls
  throw new ConfigError(
    'CDN_PURGE_URL must be varnish://host:port, fastly://:token@service or cloudflare://:token@zone, or several with commas',
  )
}

import type { TagHeader } from '../../http/cacheable.ts'

/** A cache in front of the store that can remove answers by their tags. */
export interface Purger {
  /** The cache's address without secrets, for logs and purges. */
  name: string
  /** Returns after the cache has accepted the purge, otherwise throws. Idempotent. */
  purge(tags: readonly string[]): Promise<void>
}

const TIMEOUT_MS = 10_000
/**
 * 100 tags are 2.3 kB. This is below Varnish's header limit (8 kB) and the limits for a call of Cloudflare (100) and
 * Fastly (256).
 */
const MAX_TAGS = 100

/**
 * The tag headers that the caches in `CDN_PURGE_URL` read. The default is `Surrogate-Key`, which the shipped Varnish
 * configuration reads.
 */
export function tagHeadersOf(urls: readonly string[]): TagHeader[] {
  const headers = urls.map((url): TagHeader => (new URL(url).protocol === 'cloudflare:' ? 'cache-tag' : 'surrogate-key'))
  return headers.length === 0 ? ['surrogate-key'] : [...new Set(headers)]
}

/** The caches of `CDN_PURGE_URL`, whose forms are in docs/operate/traffic.md. Throws for any other form. */
export function createPurgers(urls: readonly string[]): Purger[] {
  return urls.map((url) => {
    const { protocol, host, hostname, password, searchParams } = new URL(url)
    const token = decodeURIComponent(password)
    switch (protocol) {
      case 'varnish:':
        return createVarnishPurger(host)
      case 'fastly:':
        return createFastlyPurger(searchParams.get('api') ?? 'https://api.fastly.com', hostname, token)
      case 'cloudflare:':
        return createCloudflarePurger(searchParams.get('api') ?? 'https://api.cloudflare.com', hostname, token)
      default:
        throw new Error(`there is no purger for ${protocol}//`)
    }
  })
}

/** Sends `PURGE` with the tags in `Surrogate-Key`, for deploy/varnish/default.vcl. It needs no Varnish module. */
function createVarnishPurger(host: string): Purger {
  return inChunks(`varnish://${host}`, async (tags) => {
    await call(`http://${host}/`, { method: 'PURGE', headers: { 'surrogate-key': tags.join(' ') } })
  })
}

/**
 * See https://www.fastly.com/documentation/reference/api/purging/#bulk-purge-tag. After a soft purge, Fastly may serve
 * stale answers while the store is down.
 */
function createFastlyPurger(api: string, serviceId: string, token: string): Purger {
  return inChunks(`fastly://${serviceId}`, async (tags) => {
    await call(`${api}/service/${serviceId}/purge`, {
      method: 'POST',
      headers: { 'fastly-key': token, 'fastly-soft-purge': '1', accept: 'application/json', 'content-type': 'application/json' },
      body: JSON.stringify({ surrogate_keys: tags }),
    })
  })
}

/** https://developers.cloudflare.com/api/resources/cache/methods/purge/ */
function createCloudflarePurger(api: string, zoneId: string, token: string): Purger {
  return inChunks(`cloudflare://${zoneId}`, async (tags) => {
    const answer = await call(`${api}/client/v4/zones/${zoneId}/purge_cache`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ tags }),
    })
    const { success } = JSON.parse(answer) as { success?: boolean }
    if (success !== true) throw new Error('Cloudflare refused to purge')
  })
}

function inChunks(name: string, purge: (tags: readonly string[]) => Promise<void>): Purger {
  return {
    name,
    async purge(tags) {
      for (let start = 0; start < tags.length; start += MAX_TAGS) await purge(tags.slice(start, start + MAX_TAGS))
    },
  }
}

async function call(url: string, init: RequestInit): Promise<string> {
  const answer = await fetch(url, { ...init, redirect: 'error', signal: AbortSignal.timeout(TIMEOUT_MS) })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`the cache answered ${answer.status}`)
  return text
}

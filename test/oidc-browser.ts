import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import type { Answer, TestStore } from './store.ts'

export const SHOP = 'https://shop.example'

/** A browser at a page of the shop: its cookies for the store, and the secret of the page. */
export class Browser {
  readonly #store: Pick<TestStore, 'call'>
  readonly verifier = randomBytes(32).toString('base64url')
  cookie = ''
  /** Its Accept-Language. */
  language = 'it'

  constructor(store: Pick<TestStore, 'call'>) {
    this.#store = store
  }

  get challenge(): string {
    return createHash('sha256').update(this.verifier).digest('base64url')
  }

  /** Begins a sign-in. */
  async start(provider = 'acme', returnTo = `${SHOP}/account?from=basket`, more: { purpose?: string } = {}): Promise<Answer> {
    const query = new URLSearchParams({ return_to: returnTo, code_challenge: this.challenge, ...more })
    const answer = await this.#store.call('GET', `/auth/oidc/${provider}/authorize?${query}`, {
      headers: { 'accept-language': this.language },
    })
    this.#keepCookie(answer)
    return answer
  }

  /** Follows the provider's redirects until it leads back to the store. */
  async visit(location: string): Promise<string> {
    const jar = new Map<string, string>()
    for (let address = location, hops = 0; hops < 10; hops++) {
      const { headers, status } = await fetch(address, {
        redirect: 'manual',
        headers: { cookie: [...jar].map((pair) => pair.join('=')).join('; ') },
      })
      for (const set of headers.getSetCookie()) {
        const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(set) ?? []
        jar.set(name, value)
      }
      const next = headers.get('location')
      assert.ok(next !== null, `the provider answered ${status}`)
      address = new URL(next, address).href
      if (address.includes('/callback?')) return address
    }
    return assert.fail('the provider redirects without end')
  }

  /** Comes back to the store. */
  async comeBack(address: string, cookie = this.cookie): Promise<Answer> {
    const { pathname, search } = new URL(address)
    const answer = await this.#store.call('GET', pathname + search, {
      headers: { 'accept-language': this.language, ...(cookie === '' ? {} : { cookie }) },
    })
    this.#keepCookie(answer)
    return answer
  }

  /** What the page finds in its address. */
  outcome({ status, headers, text }: Answer): { code?: string; linkCode?: string; error?: string } {
    assert.equal(status, 303, text)
    const { origin, pathname, search, hash } = new URL(headers.location ?? '')
    assert.deepEqual([origin, pathname, search], [SHOP, '/account', '?from=basket'])
    const [, kind, value = ''] = /^#oidc-(code|link-code|error)=(.+)$/.exec(hash) ?? []
    if (kind === 'link-code') return { linkCode: value }
    return kind === 'code' ? { code: value } : { error: value }
  }

  exchange(code: string, verifier = this.verifier): Promise<Answer> {
    return this.#store.call('POST', '/auth/oidc/token', { body: { code, code_verifier: verifier } })
  }

  #keepCookie({ headers }: Answer): void {
    const set = headers['set-cookie']
    if (set !== undefined) this.cookie = /Max-Age=0/.test(String(set)) ? '' : (String(set).split(';')[0] ?? '')
  }
}

/** The tokens of a session, as the client keeps them. */
export interface Tokens {
  access_token: string
  refresh_token: string
}

/** The store of a session's tokens between calls. Both methods may be asynchronous. */
export interface TokenStore {
  /** Returns null if nobody is logged in. */
  load(): Tokens | null | Promise<Tokens | null>
  /** Stores the tokens. Null ends the session. */
  save(tokens: Tokens | null): void | Promise<void>
}

/** Keeps tokens until the page or the process ends. */
export function memoryTokens(initial: Tokens | null = null): TokenStore {
  let tokens = initial
  return {
    load: () => tokens,
    save: (next) => {
      tokens = next
    },
  }
}

/**
 * Keeps tokens in a `Storage`, such as `sessionStorage`. Every script of the page can read them, so a page that runs
 * foreign scripts should keep them in memory.
 */
export function storedTokens(storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>, key = 'storefront.tokens'): TokenStore {
  return {
    load: () => {
      const text = storage.getItem(key)
      return text === null ? null : (JSON.parse(text) as Tokens)
    },
    save: (tokens) => {
      if (tokens === null) storage.removeItem(key)
      else storage.setItem(key, JSON.stringify({ access_token: tokens.access_token, refresh_token: tokens.refresh_token }))
    },
  }
}

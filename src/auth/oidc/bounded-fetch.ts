/** The provider does not answer within the bounds. The message contains no secret and no personal data. */
export class ProviderUnavailable extends Error {
  override readonly name = 'ProviderUnavailable'
}

const DEEPEST_CAUSE = 5

/** Finds the ProviderUnavailable inside a library's errors; null if there is none. */
export function findUnavailable(error: unknown, depth = 0): ProviderUnavailable | null {
  if (error instanceof ProviderUnavailable) return error
  return error instanceof Error && depth < DEEPEST_CAUSE ? findUnavailable(error.cause, depth + 1) : null
}

export interface FetchBounds {
  /** The time from the request to the end of the body. */
  timeoutMs: number
  /** The largest decoded body. */
  maxBytes: number
}

interface FetchOptions {
  method: string
  headers: Record<string, string>
  body?: unknown
  redirect: 'manual'
  signal?: AbortSignal | undefined
}

/**
 * A `fetch` for slow, endless or unavailable servers. Reads the whole body within the bounds. Throws
 * ProviderUnavailable.
 */
export function createBoundedFetch({ timeoutMs, maxBytes }: FetchBounds) {
  return async (url: string, { signal, body, ...options }: FetchOptions): Promise<Response> => {
    const timeout = AbortSignal.timeout(timeoutMs)
    try {
      const response = await fetch(url, {
        ...options,
        ...(body === undefined || body === null ? {} : { body: body as string | URLSearchParams }),
        signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
      })
      const bytes = await readAtMost(response, maxBytes)
      const { status, headers } = response
      return new Response(bytes.length === 0 ? null : new Uint8Array(bytes), { status, headers })
    } catch (error) {
      if (error instanceof ProviderUnavailable) throw error
      const reason = timeout.aborted ? `no whole answer within ${timeoutMs / 1_000} s` : codeOf(error)
      throw new ProviderUnavailable(`${new URL(url).origin} does not answer: ${reason}`, { cause: error })
    }
  }
}

async function readAtMost({ body }: Response, maxBytes: number): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body ?? []) {
    size += chunk.length
    // Leaving the loop ends the connection.
    if (size > maxBytes) throw new ProviderUnavailable(`the answer has more than ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** The code of a `fetch` error, whose own message is always "fetch failed". */
function codeOf(error: unknown): string {
  const { cause, name } = error as { cause?: { code?: string }; name?: string }
  return cause?.code ?? name ?? 'unknown'
}

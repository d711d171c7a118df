import type { Child } from './child.ts'
import type { HttpLoad, LoadResult } from './http-load.ts'

/** Loads a server through the process of rig/http-load.ts. Throws if an answer was not the expected one. */
export async function loadHttp(client: Child, load: HttpLoad): Promise<LoadResult> {
  const result = await client.ask<LoadResult>(load)
  if (result.failures > 0) throw new Error(`${result.failures} answers were not ${load.status}`)
  if (Number.isNaN(result.p50)) throw new Error('nothing was answered')
  return result
}

import type { Answer } from './store.ts'

/** Sends a request again while the process has no place for it, as a client does that follows `Retry-After`. */
export async function takeTurns(send: () => Promise<Answer>): Promise<Answer> {
  for (let turn = 1; turn < 50; turn++) {
    const answer = await send()
    if (answer.status !== 503) return answer
  }
  return send()
}

/** Reports a step. Called often, so it must be cheap. */
export type OnStep = (text: string) => void

export function countOf(count: number): string {
  return count.toLocaleString('en')
}

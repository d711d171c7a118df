/** Called with what an audit does now, such as `read 20,000 orders`: often, so it must be cheap. */
export type OnStep = (text: string) => void

export function countOf(count: number): string {
  return count.toLocaleString('en')
}

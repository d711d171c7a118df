export function counted(n: number, word: string, words = `${word}s`): string {
  return `${n} ${n === 1 ? word : words}`
}

import type { Schemas } from './api.ts'

export const CATEGORIES_HINT = 'One a line, from the top: Men > Shoes. The first one is the main one; missing ones are created.'

/** A line for each category, with its path of names. */
export function formatCategories(categories: Schemas['ProductDetails']['categories']): string {
  return categories.map(({ path }) => path.map(({ name }) => name.replaceAll('>', '\\>')).join(' > ')).join('\n')
}

/** The paths that the lines mean: `>` separates names, and `\\>` is a part of one. */
export function readCategories(text: string): string[][] {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  return lines.map((line) => line.split(/(?<!\\)>/).map((name) => name.replaceAll('\\>', '>').trim()))
}

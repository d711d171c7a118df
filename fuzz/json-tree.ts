/** JSON that can be invalid in ways that a JavaScript value cannot: repeated names, and odd spellings of numbers. */
export type Json = string | number | boolean | null | Json[] | Members | Verbatim

export class Members {
  readonly pairs: [name: string, value: Json][]

  constructor(pairs: [string, Json][]) {
    this.pairs = pairs
  }
}

/** Text that is written unchanged. */
export class Verbatim {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

export function fromValue(value: unknown): Json {
  if (Array.isArray(value)) return value.map(fromValue)
  if (typeof value !== 'object' || value === null) return value as Json
  return new Members(Object.entries(value).map(([name, child]) => [name, fromValue(child)]))
}

/** A separate copy of a tree. */
export function copyOf(json: Json): Json {
  if (json instanceof Members) return new Members(json.pairs.map(([name, value]) => [name, copyOf(value)]))
  return Array.isArray(json) ? json.map(copyOf) : json
}

export function toText(json: Json): string {
  if (json instanceof Verbatim) return json.text
  if (json instanceof Members) return `{${json.pairs.map(([name, value]) => `${JSON.stringify(name)}:${toText(value)}`).join(',')}}`
  if (Array.isArray(json)) return `[${json.map(toText).join(',')}]`
  return JSON.stringify(json)
}

/** A place of a value, through which it can be changed. */
export interface Slot {
  value: Json
  set(value: Json): void
}

/** Every place in a tree, the root first. */
export function slotsOf(root: Slot): Slot[] {
  const slots = [root]
  // This also visits the slots that it adds.
  for (const { value } of slots) {
    if (Array.isArray(value))
      for (const [index, child] of value.entries()) slots.push({ value: child, set: (other) => void value.splice(index, 1, other) })
    if (value instanceof Members)
      for (const pair of value.pairs) slots.push({ value: pair[1], set: (other) => void pair.splice(1, 1, other) })
  }
  return slots
}

// Writes products as NDJSON to standard output, the same ones for the same number: `node bench/generate-products.ts
// 1000000 > products.ndjson`. Words have the frequencies of a shop's words: the n-th most frequent word comes about 1/n
// as often as the first (Zipf's law).
import { once } from 'node:events'

const SYLLABLES = [
  'ba',
  'ce',
  'di',
  'fo',
  'gu',
  'ka',
  'le',
  'mi',
  'no',
  'pu',
  'ra',
  'se',
  'ti',
  'vo',
  'zu',
  'bri',
  'cla',
  'dro',
  'fle',
  'gri',
]
const WORDS = 20_000
const CATEGORIES = 200
const COLOURS = ['red', 'green', 'blue', 'black', 'white', 'yellow']
const SIZES = ['S', 'M', 'L', 'XL']
/** The number of variants in a group. Every tenth product belongs to a group. */
const VARIANTS = 8

/** The word with this rank. The most frequent word has rank 0. */
export function wordOfRank(rank: number): string {
  let word = ''
  for (let rest = rank + 400; rest > 0; rest = Math.floor(rest / SYLLABLES.length)) word += SYLLABLES[rest % SYLLABLES.length]
  return word
}

/** The generator mulberry32, which is small, fast, and the same on every machine. */
function randomNumbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

export function* generateProducts(count: number): Generator<object> {
  const random = randomNumbers(1)
  const word = () => wordOfRank(Math.min(WORDS - 1, Math.floor((WORDS + 1) ** random()) - 1))
  const words = (length: number) => Array.from({ length }, word).join(' ')
  for (let index = 0; index < count; index++) {
    const isVariant = index % 80 < VARIANTS
    const category = Math.floor(random() ** 2 * CATEGORIES)
    yield {
      sku: `SKU-${String(index).padStart(8, '0')}`,
      name: words(3 + Math.floor(random() * 3)),
      description: words(8 + Math.floor(random() * 16)),
      category: `Category ${category}`,
      image_url: `https://images.example/${index}.jpg`,
      ...(isVariant ? { group: `GROUP-${Math.floor(index / 80)}`, options: { size: SIZES[index % 4], colour: COLOURS[index % 6] } } : {}),
      price: { amount: 100 + Math.floor(random() ** 3 * 100_000), currency: 'EUR' },
      stock: random() < 0.1 ? 0 : Math.floor(random() * 1_000),
    }
  }
}

if (import.meta.main) {
  let text = ''
  for (const product of generateProducts(Number(process.argv[2] ?? 1_000))) {
    text += `${JSON.stringify(product)}\n`
    if (text.length < 65_536) continue
    if (!process.stdout.write(text)) await once(process.stdout, 'drain')
    text = ''
  }
  process.stdout.write(text)
}

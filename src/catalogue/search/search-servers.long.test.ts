import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createTestDatabase } from '../../../test/database.ts'
import { debianPostgresMissing, startDebianPostgres } from '../../../test/debian-postgres.ts'
import { auditContextOfCommand } from '../../activity/record-activity.ts'
import { migrate } from '../../db/migrate.ts'
import type { Pool } from '../../db/pool.ts'
import { createProduct } from '../change-product.ts'
import type { ImportedProduct } from '../import/imported-product.ts'
import { listProducts } from '../list-products.ts'
import { normalizeProduct } from '../normalize-product.ts'
import { readFilters, readListing } from '../product-query.ts'
import { countFacets } from './facets.ts'
import { toWords } from './search-words.ts'

function product(name: string, more: Partial<ImportedProduct> = {}): ImportedProduct {
  const price = { amount: 100, currency: 'EUR' }
  return {
    ...normalizeProduct({
      sku: `sku of ${name.replace(/\p{Default_Ignorable_Code_Point}|\u200b/gu, '')}`.slice(0, 64),
      name,
      category: 'things',
      price,
    }),
    ...more,
  }
}

const PRODUCTS = [
  product('“Moonbeam” Lamp'),
  product('Sun\u00a0Dial'),
  product('折り畳み\u3000傘'),
  product('Café Crème'),
  product('Smorgasbord Łódź'),
  product('Cafe\u0301 Table', { options: { Größe: '42.5', age: '86-92', Farbe: 'black/white', Stoff: 'Crêpe' } }),
  product('Магнитофон «Ёлочка»'),
  product('ΟΔΟΣ Φανάρι'),
  product('İSTANBUL Işık'),
  product('Straße Æble'),
  product('Ｆｕｌｌ Width'),
  product('Party 🎈Balloon™'),
  product('한국어 모자'),
  product('naïve\u00adté co\u200bop'),
  product('Wi-Fi Cable 5,5 m × 3'),
  product('Gr.49 Primer for C++'),
  product('AT&T 折り紙 ガラス鍋'),
  product('Part', { sku: '3e1x-7', description: '‘Velvet’—soft…really' }),
]

/** What each search finds, by name. */
const SEARCHES: Record<string, string[]> = {
  moonbeam: ['“Moonbeam” Lamp'],
  '“moonbeam”': ['“Moonbeam” Lamp'],
  '"Moonbeam" lamp': ['“Moonbeam” Lamp'],
  'Sun\u00a0Dial': ['Sun\u00a0Dial'],
  'sun dial': ['Sun\u00a0Dial'],
  '折り畳み\u3000傘': ['折り畳み\u3000傘'],
  折り畳: ['折り畳み\u3000傘'],
  cafe: ['Café Table', 'Café Crème'],
  café: ['Café Table', 'Café Crème'],
  'CAFE\u0301 creme': ['Café Crème'],
  lodz: ['Smorgasbord Łódź'],
  ŁÓDŹ: ['Smorgasbord Łódź'],
  '42.5': ['Café Table'],
  '86-92': ['Café Table'],
  'black/white': ['Café Table'],
  crepe: ['Café Table'],
  елочка: ['Магнитофон «Ёлочка»'],
  ЁЛОЧКА: ['Магнитофон «Ёлочка»'],
  'οδος φαναρι': ['ΟΔΟΣ Φανάρι'],
  ΟΔΟΣ: ['ΟΔΟΣ Φανάρι'],
  istanbul: ['İSTANBUL Işık'],
  'İstanbul IŞIK': ['İSTANBUL Işık'],
  'STRASSE aeble': ['Straße Æble'],
  straße: ['Straße Æble'],
  'full ｗｉｄｔｈ': ['Ｆｕｌｌ Width'],
  balloon: ['Party 🎈Balloon™'],
  '🎈': ['Party 🎈Balloon™'],
  '한국어 모자': ['한국어 모자'],
  'naivete co': ['naïve\u00adté co\u200bop'],
  '3e1x-7': ['Part'],
  'velvet really': ['Part'],
  wifi: ['Wi-Fi Cable 5,5 m × 3'],
  'cable 5.5m': ['Wi-Fi Cable 5,5 m × 3'],
  gr49: ['Gr.49 Primer for C++'],
  'c++': ['Gr.49 Primer for C++'],
  att: ['AT&T 折り紙 ガラス鍋'],
  紙: ['AT&T 折り紙 ガラス鍋'],
  ラス鍋: ['AT&T 折り紙 ガラス鍋'],
  'table -lamp': ['Café Table'],
  // No product has these words: similar ones are searched.
  магнетофон: ['Магнитофон «Ёлочка»'],
  φαναρη: ['ΟΔΟΣ Φανάρι'],
  mooonbeam: ['“Moonbeam” Lamp'],
  smörgasbrod: ['Smorgasbord Łódź'],
  '🎉': [],
  '…': [],
}

async function search(pool: Pool, q: string): Promise<string[]> {
  const { page } = await listProducts(pool, readListing({ q }))
  return page.data.map(({ name }) => name).toSorted()
}

async function assertSearches(pool: Pool): Promise<void> {
  for (const [q, names] of Object.entries(SEARCHES)) {
    assert.deepEqual(await search(pool, q), names.toSorted(), q)
    const { categories } = await countFacets(pool, readFilters({ q }))
    assert.deepEqual(categories, names.length === 0 ? [] : [{ category: 'things', slug: 'things', count: names.length }], q)
  }
  for (const { name } of PRODUCTS) assert.ok((await search(pool, name)).includes(name), `${name} is found by its own name`)
}

/** Every character but those of which there are thousands of a kind. */
function allCharacters(): string[] {
  const characters: string[] = []
  for (let code = 1; code <= 0x10ffff; code++) {
    const character = String.fromCodePoint(code)
    if (!/[\p{Cs}\p{Co}\p{Cn}\p{Script=Han}\p{Script=Hangul}\p{Script=Tangut}]/u.test(character)) characters.push(character)
  }
  return characters
}

/** Characters that `toWords` and the database do not take for the same words. */
async function findDifferent(pool: Pool): Promise<string[]> {
  const characters = allCharacters()
  const { rows } = await pool.query<{ character: string; words: string }>(
    // Characters newer than the server's Unicode stay unchanged there.
    `select character, search_text('x' || character || 'Y') as words
     from unnest($1::text[], $2::text[]) as ours (character, decomposed)
     where normalize(character, nfkd) = decomposed`,
    [characters, characters.map((character) => character.normalize('NFKD'))],
  )
  assert.ok(rows.length > 30_000, `${rows.length} characters are compared`)
  return rows
    .filter(({ character, words }) => toWords(`x${character}Y`).join(' ') !== words.replace(/ +/g, ' ').trim())
    .map(({ character }) => character)
}

const debian = debianPostgresMissing === false ? await startDebianPostgres({ after }) : null
const servers: [string, string | false, () => Promise<{ pool: Pool; url: string }>][] = [
  ['the embedded server', false, () => createTestDatabase({ after })],
  ["Debian's server in C.UTF-8", debianPostgresMissing, () => debian?.createDatabase('C.UTF-8') ?? assert.fail()],
  ["Debian's server in C", debianPostgresMissing, () => debian?.createDatabase('C') ?? assert.fail()],
]

for (const [server, skip, open] of servers) {
  test(`searches find the same products on ${server}, and words are split at the same characters`, { skip }, async () => {
    const { pool, url } = await open()
    await migrate(url)
    for (const added of PRODUCTS) await createProduct({ pool }, added, auditContextOfCommand('test'))
    await assertSearches(pool)
    assert.deepEqual(await findDifferent(pool), [])
  })
}

test('truncates a word that is too long for the index, in ASCII and in other scripts', async (t) => {
  const { pool, url } = await createTestDatabase(t)
  await migrate(url)
  const { rows } = await pool.query<{ text: string; words: string[] }>(
    `select text, tsvector_to_array(catalogue_words(text)) as words
    from unnest($1::text[]) as text`,
    [['x', 'é'].map((letter) => `a ${letter.repeat(3_000)} z`)],
  )
  assert.equal(rows.length, 2)
  for (const { text, words } of rows) assert.deepEqual(words.toSorted(), toWords(text).toSorted())
})

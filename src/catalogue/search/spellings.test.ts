import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startStore } from '../../../test/store.ts'
import { normalizeSearch, parseSearch } from './search-words.ts'

const store = await startStore({ after })

async function find(q: string): Promise<string[]> {
  const answer = await store.call('GET', `/products?${new URLSearchParams({ q, limit: '100' })}`)
  assert.equal(answer.status, 200, answer.text)
  return answer.json.data.map(({ name }: { name: string }) => name).toSorted()
}

/** Spellings of one thing: a product in any of them is found by all of them. */
const SPELLINGS: readonly (readonly string[])[] = [
  ['gr49', 'gr 49', 'Gr. 49', 'GR-49', 'gr.49', 'Gr_49'],
  ['100ml', '100 ml', '100-ML'],
  ['1TB', '1 tb', '1-TB'],
  ['M8x20', 'm8 x 20', 'M8 × 20', 'M8×20', 'm 8 x 20'],
  ['20x30x40', '20 x 30 x 40', '20 × 30×40'],
  ['5,5mm', '5.5 mm', '5,5 mm', '5.5mm', '5,5-mm'],
  ['USB 3.0', 'usb3.0', 'USB-3,0'],
  ['ab12', 'AB-12', 'ab 12', 'Ab.12'],
  ['iPhone15Pro', 'iphone 15 pro', 'iPhone-15-Pro', 'iphone15 pro', 'iphone 15pro'],
  ['h2o', 'H 2 O', 'h2 o'],
  ['C++', 'c++ ', '(C++)'],
  ['F#', 'f#'],
  ['日本語', '日本語。'],
  ['ガラス鍋', 'ガラス鍋 '],
  ['手机iphone', '手机 iPhone'],
]
/** Spellings of which only those that are one word, or have a sign between the words, find those that are one word. */
const SIGNED: readonly (readonly string[])[] = [
  ['wifi', 'Wi-Fi', 'WiFi', 'wi‑fi', 'WI_FI'],
  ['att', 'AT&T', 'A.T.T.'],
  ['usa', 'U.S.A.', 'u.s.a'],
  ['tshirt', 'T-Shirt', "t'shirt"],
  ['oneill', "O'Neill", 'O’Neill'],
  ['ebike', 'E-Bike'],
  ['вайфай', 'Вай-Фай', 'ВАЙФАЙ'],
]

for (const spellings of [...SPELLINGS, ...SIGNED]) {
  test(`${spellings[0]} is found however the product and the shopper write it`, async (t) => {
    t.after(() => store.pool.query('delete from products'))
    const names = spellings.map((spelling, index) => `${'abcdef'[index]?.repeat(7)} ${spelling} zzzz`)
    for (const name of names) await store.addProduct({ name, category: 'things' })
    for (const q of spellings) assert.deepEqual(await find(q), names.toSorted(), q)
    for (const q of spellings) assert.deepEqual(await find(`zzzz ${q}`), names.toSorted(), `${q} beside another word`)
  })
}

test('words with a blank between them find the joined word', async (t) => {
  t.after(() => store.pool.query('delete from products'))
  await store.addProduct({ name: 'Wifi Handtasche', category: 'things' })
  for (const q of ['wi fi', 'hand tasche', 'wi fi hand tasche']) assert.deepEqual(await find(q), ['Wifi Handtasche'], q)
})

test('a search for a number or a word with signs finds no other one', async (t) => {
  t.after(() => store.pool.query('delete from products'))
  for (const name of ['Tin 5', 'Tin 5,5', 'Tin 55', 'Tin 5 5', 'Book C', 'Book C++', 'Book C#', '東京', '京都東'])
    await store.addProduct({ name, category: 'things' })
  for (const [q, names] of [
    ['5,5', ['Tin 5,5']],
    ['5.5', ['Tin 5,5']],
    ['tin -5,5', ['Tin 5', 'Tin 5 5', 'Tin 55']],
    ['c++', ['Book C++']],
    ['book -c++', ['Book C', 'Book C#']],
    ['c#', ['Book C#']],
    ['c', ['Book C', 'Book C#', 'Book C++']],
    ['東京', ['東京']],
    ['京', ['京都東', '東京']],
  ] as const) {
    assert.deepEqual(await find(q), names.toSorted(), q)
  }
})

test('a sign that no product has is ignored', async (t) => {
  t.after(() => store.pool.query('delete from products'))
  await store.addProduct({ name: 'Lamp 7 and 3 C', category: 'things' })
  for (const q of ['lamp+', 'c++', '7.3', '7,3 lamp']) assert.deepEqual(await find(q), ['Lamp 7 and 3 C'], q)
})

test('a part of a text finds it, in scripts without blanks between words', async (t) => {
  t.after(() => store.pool.query('delete from products'))
  for (const name of ['折り畳み傘', '新日本語辞典', 'หมวกกันน็อค']) await store.addProduct({ name, category: 'things' })
  for (const [q, name] of [
    ['傘', '折り畳み傘'],
    ['畳み傘', '折り畳み傘'],
    ['本', '新日本語辞典'],
    ['日本語', '新日本語辞典'],
    ['辞典', '新日本語辞典'],
    ['กันน็อค', 'หมวกกันน็อค'],
  ] as const) {
    assert.deepEqual(await find(q), [name], q)
  }
  assert.deepEqual(await find('日語辞'), [])
})

test('the canonical spelling of a search is the same search', () => {
  for (const q of [...SPELLINGS, ...SIGNED]
    .flat()
    .flatMap((spelling) => [spelling, `${spelling} lamp -${spelling.trim()}`, `-${spelling.trim()} oak`])) {
    const search = parseSearch(q)
    assert.deepEqual(parseSearch(normalizeSearch(search)), search, q)
  }
})

test("the backfill gives products of an earlier release this release's words, also for translations", async (t) => {
  t.after(() => store.pool.query('delete from products'))
  await store.addProduct({ name: 'Wi-Fi Router', category: 'things' })
  const translated = await store.addProduct({ name: 'Router', category: 'things' })
  await store.pool.query(`update products set translations = '{"de": {"name": "WLAN-Router Gr. 49"}}' where id = $1`, [translated.id])
  const { rows } = await store.pool.query('select id, search, translated_search from products order by id')
  await store.pool.query(
    `update products set search = 'router:1A', translated_search = case when translations <> '{}' then 'router:1A'::tsvector end`,
  )
  assert.deepEqual([await find('wifi'), await find('wlanrouter gr49')], [[], []])
  await store.pool.query(`insert into product_event_backfill values ('00000000-0000-0000-0000-000000000000')`)
  while ((await store.pool.query('select backfill_product_events(1) as has_more')).rows[0].has_more) {}
  assert.deepEqual([await find('wifi'), await find('wlanrouter gr49')], [['Wi-Fi Router'], ['Router']])
  assert.deepEqual((await store.pool.query('select id, search, translated_search from products order by id')).rows, rows)
})

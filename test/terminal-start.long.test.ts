import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { makeDataFolder } from './data-folders.ts'
import { eventually } from './eventually.ts'
import { runStorefront } from './store-process.ts'
import { NO_TERMINAL, runInTerminal, startInTerminal } from './terminal.ts'

const CTRL_C = '\x03'
const CLEAR_LINE = '\r\x1b[K'
// A new cluster takes seconds: the tests share this one, one after the other.
const folder = makeDataFolder({ after })

test('on a terminal the start ends in a summary, the log is readable, and there is no JSON', { skip: NO_TERMINAL }, async (t) => {
  const store = await startInTerminal(t, 'npm start', { DATA_DIR: folder.path })
  await eventually(async () => store.output.includes('Ctrl-C stops it.'))
  // The events of the sample are published: the next test compares.
  await eventually(async () => store.output.split('change stream is active').length === 3, { what: 'both change streams' })
  store.type(CTRL_C)
  assert.equal((await store.ended)[0], 0, store.output)
  const text = stripVTControlCharacters(store.output).replaceAll('\r', '')
  assert.match(text, /Creating the database/)
  assert.ok(text.includes(`\nStorefront answers at http://localhost:${store.port}\n`), text)
  assert.ok(text.includes(`  API reference  http://localhost:${store.port}/docs\n`), text)
  assert.ok(text.includes(`  Mails          files in ${folder.mail}\n  Lake           files in ${folder.lake}\n`), text)
  // What a second terminal needs to find this store.
  const command = `DATA_DIR=${folder.path} ./storefront`
  assert.ok(
    text.includes(`  New operator   ${command} admin create EMAIL\n  Demo orders    ${command} demo\n  Example shop   npm run shop`),
    text,
  )
  assert.match(text, /\d\d:\d\d:\d\d info {2}stopping\n/)
  assert.equal(text.includes('"level"'), false, text)
  assert.equal(text.split('Storefront answers').length, 2, 'once')
})

test('long work shows one line of progress on a terminal, which is gone at the end, and nothing elsewhere', {
  skip: NO_TERMINAL,
}, async (t) => {
  const env = { DATA_DIR: folder.path }
  const terminal = runInTerminal(t, 'node bin/storefront.mjs verify', env)
  assert.equal((await terminal.ended)[0], 0, terminal.output)
  const shown = `${CLEAR_LINE}Comparing orders, catalogue, topic, mails and lake …`
  const [before = '', ...after] = terminal.output.split(shown)
  assert.ok(after.length > 0, JSON.stringify(before))
  assert.match(after.at(-1)?.split(CLEAR_LINE).at(-1) ?? '', /^orders/)
  const { status, stderr } = await runStorefront(t, ['verify'], { env })
  assert.deepEqual({ status, stderr }, { status: 0, stderr: '' })
})

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { SUBSCRIBERS } from './subscribers.ts'

const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')
const rolesOf = (partition: string) => SUBSCRIBERS.filter((one) => one.partition === partition).map(({ role }) => role)

test('docs/operate/monitor.md has a row for each subscriber', () => {
  const rows = SUBSCRIBERS.map(({ name, role, partition, makes, position, hasQueue }) => {
    return `| \`${name}\` | \`${role}\` | ${partition} | ${makes} | ${position} | ${hasQueue ? `\`${name}\`` : '–'} |\n`
  })
  const [, table = ''] = /^\| Subscriber \| Role \|.*\n\|---.*\n((?:\|.*\n)+)/m.exec(read('docs/operate/monitor.md')) ?? []
  assert.equal(table, rows.join(''), `the table of subscribers in docs/operate/monitor.md must be\n${rows.join('')}`)
})

test('the alerts expect an orders subscriber from each role, and a catalogue subscriber from each role that has one', () => {
  const alerts = read('deploy/prometheus/alerts.yaml')
  const ofCatalogue = `role=~"${rolesOf('catalogue').toSorted().join('|')}"`
  assert.ok(alerts.includes(ofCatalogue), `CatalogueSubscriberStandsStill in deploy/prometheus/alerts.yaml needs ${ofCatalogue}`)
  for (const { name, role, partition } of SUBSCRIBERS)
    assert.equal(name, partition === 'orders' ? role : `catalogue-${role}`, 'the alerts find the name of a subscriber by its role')
})

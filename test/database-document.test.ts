import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { connectionsOf, poolSizes } from '../src/app/pool-sizes.ts'
import { ROLES, type Role, readConfig } from '../src/config.ts'
import { eventually } from './eventually.ts'
import { startHangingServer } from './hanging-server.ts'
import { type Account, startStore, TEST_SECRET } from './store.ts'

const DOCUMENT = readFileSync(new URL('../docs/operate/database.md', import.meta.url), 'utf8')
const rowsOf = (heading: string) => {
  const [, section = ''] = new RegExp(`^## ${heading}$([\\s\\S]*?)(?=^## |$(?![\\s\\S]))`, 'm').exec(DOCUMENT) ?? []
  return [...section.matchAll(/^\| (`.*?|any) \|(.*)\|$/gm)].map(([, first = '', rest = '']) => [
    first,
    ...rest.split('|').map((cell) => cell.trim()),
  ])
}

test('docs/operate/database.md lists every kind of connection of a process, and the maximum of each', async (t) => {
  const rows = rowsOf('Connections')
  const documented = rows.map(([, name = '']) => name.replaceAll('`', ''))
  const most = new Map(rows.map(([, name = '', count = '']) => [name.replaceAll('`', ''), Number.parseInt(count, 10)]))
  const { databasePoolSize, roles } = readConfig({ DATABASE_URL: 'postgres://localhost/shop', STOREFRONT_SECRET: TEST_SECRET })
  const sizes = poolSizes({ databasePoolSize, roles })
  assert.match(rows[0]?.[2] ?? '', new RegExp(`, ${sizes.general} unless set$`))
  most.set('storefront', sizes.general)
  assert.match(rows[1]?.[2] ?? '', new RegExp(`, ${sizes.placing} at most$`))
  most.set('storefront-orders', sizes.placing)
  assert.equal(most.get('storefront-pipeline'), sizes.pipeline)

  // A mail that takes long has a lease that is extended.
  const smtpUrl = `smtp://127.0.0.1:${await startHangingServer(t)}`
  const store = await startStore(t, { roles: ROLES, databasePoolSize, smtpUrl, leavesWork: true })
  const accounts = await Promise.all(Array.from({ length: 30 }, () => store.register()))
  const { id: product_id } = await store.addProduct({ stock: null })
  const place = ({ token }: Account) => store.call('POST', '/orders', { token, body: { items: [{ product_id, quantity: 1 }] } })
  await Promise.all(accounts.map(place))
  const connections = async () => {
    const { rows } = await store.pool.query<{ name: string; count: number }>(
      `select application_name as name, count(*)::int as count from pg_stat_activity
      where datname = current_database() and application_name not in ('test', 'storefront-catalogue-refill') group by 1 order by 1`,
    )
    return rows
  }
  await eventually(
    async () => {
      const names = (await connections()).map(({ name }) => name)
      return names.join() === documented.toSorted().join()
    },
    { what: 'the connections that the document lists, and no others' },
  )
  await Promise.all(accounts.map(place))
  for (const { name, count } of await connections()) assert.ok(count <= (most.get(name) ?? 0), `${count} × ${name}`)
  const total = [...most.values()].reduce((sum, count) => sum + count, 0)
  assert.match(DOCUMENT, new RegExp(`a process with every role has at most ${total} connections`))
  assert.equal(total, connectionsOf({ databasePoolSize, roles }))
  const documentedFor = (own: readonly Role[]) => {
    const shared = rows.slice(3).filter(([who = '']) => own.some((role) => who.includes(`\`${role}\``)))
    const pools = databasePoolSize + (own.includes('api') ? poolSizes({ databasePoolSize, roles: own }).pipeline : 0)
    return shared.reduce((sum, [, name = '']) => sum + (most.get(name.replaceAll('`', '')) ?? 0), pools)
  }
  const alone: Role[][] = [['api'], ROLES.filter((role) => role !== 'api'), ...ROLES.map((role) => [role])]
  for (const own of alone) assert.equal(connectionsOf({ databasePoolSize, roles: own }), documentedFor(own), own.join())
  const [api, others] = alone.map((own) => documentedFor(own))
  assert.match(DOCUMENT.replaceAll('\n', ' '), new RegExp(`API alone has at most ${api}, and one of all other roles at most ${others}\\.`))
})

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { startStore } from '../../test/store.ts'
import { REQUEST_COSTS, type RequestCost } from './request-cost.ts'

const store = await startStore({ after }, { databasePoolSize: 10 })
const CONNECTIONS = 6
/** The numbers of places that depend on the machine. */
const PLACES: Record<string, string> = { password: '2 a core', console_sign_in: '2 a core' }

test('docs/inside/security.md lists every class of requests with its cost, places and routes', () => {
  const text = readFileSync(new URL('../../docs/inside/security.md', import.meta.url), 'utf8')
  const [, section = ''] = /^## What a request may cost$([\s\S]*?)^## /m.exec(text) ?? []
  const documented = [...section.matchAll(/^\| `(\w+)` \| (.*) \|$/gm)].map(([, name, cells = '']) => [name, ...cells.split(' | ')])
  const routesOf = (name: string) =>
    store.server.listedRoutes
      .filter(({ method, costs }) => method !== 'HEAD' && (costs as readonly string[]).includes(name))
      .map(({ method, url }) => `\`${method} ${url}\``)
      .join(', ')
  const expected = (Object.entries(REQUEST_COSTS) as [string, RequestCost][]).map(([name, { processorMs, rows, connections, places }]) => [
    name,
    processorMs.toLocaleString('en'),
    rows.toLocaleString('en'),
    String(connections),
    places === null ? '-' : (PLACES[name] ?? String(places(CONNECTIONS))),
    name === 'operator' ? 'every route that needs a scope' : routesOf(name),
  ])
  assert.deepEqual(documented, expected)
})

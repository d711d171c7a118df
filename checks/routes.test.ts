import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/**
 * `problem.ts` declares what `define-route.ts` calls. No other file adds a route, or lists the refusals that follow
 * from it.
 */
const KIT = ['src/http/define-route.ts', 'src/http/problem.ts']
const BY_HAND = /\b(?:server|scope)\s*\.(?:get|head|post|put|patch|delete|options|all|route)\(|\bproblemResponses\(/

function findRoutesByHand(files: readonly (readonly [file: string, source: string])[]): string[] {
  return files.filter(([, source]) => BY_HAND.test(source)).map(([file]) => file)
}

test('every route is a row of src/http/define-route.ts', () => {
  const files = globSync('src/**/*.ts', { cwd: ROOT }).filter((file) => !file.endsWith('.test.ts'))
  assert.ok(files.length > 500)
  const byHand = findRoutesByHand(files.map((file) => [file, readFileSync(`${ROOT}/${file}`, 'utf8')] as const))
  assert.deepEqual(byHand.toSorted(), KIT)
})

test('finds a route and refusals that are written by hand', () => {
  for (const way of ["server.get('/admin/x', {", 'scope.route({', "problemResponses('not_found')"])
    assert.deepEqual(findRoutesByHand([['src/x.ts', way]]), ['src/x.ts'], way)
  assert.deepEqual(findRoutesByHand([['src/x.ts', "defineRoute(server, 'GET /admin/x', {"]]), [])
})

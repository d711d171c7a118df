import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { findCycles, findWrongImports, WALLS } from './import-rules.ts'
import { readImports, readTree } from './imports.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

test('the walls between the rooms allow every import of the program, and no import is part of a cycle', () => {
  const tree = readTree(ROOT)
  assert.ok(tree.imports.length > 500 && tree.packages.length > 100, 'the source was read')
  assert.deepEqual(findWrongImports(tree.imports, tree.packages), [])
  assert.deepEqual(findCycles(tree.imports), [])
})

test('the console knows the API through the client, and only unchanged program files that a browser can run', () => {
  const { imports, packages } = readTree(ROOT, 'console')
  assert.ok(imports.length > 100, 'the source was read')
  const outside = imports.filter(({ to, isTypeOnly }) => !isTypeOnly && !/^(console|client\/src)\//.test(to)).map(({ to }) => to)
  for (const file of new Set(outside)) {
    const { imports: own, packages: others } = readImports(file, readFileSync(join(ROOT, file), 'utf8'))
    assert.deepEqual([...own.filter(({ isTypeOnly }) => !isTypeOnly), ...others], [], `${file} imports something at run time`)
  }
  const known = /^(lit-html(\/directives\/[a-z-]+\.js)?|uplot|uqr)$/
  assert.deepEqual(
    packages.filter(({ name }) => !known.test(name)),
    [],
  )
})

test('each wall refuses a wrong import, with its reason', () => {
  for (const { room, reason } of WALLS) {
    for (const place of [room].flat()) {
      const from = place.endsWith('.ts') ? `src/${place}` : `src/${place}/some.ts`
      const [wrong] = findWrongImports([{ from, to: 'src/nowhere/pages.ts', isTypeOnly: false }])
      assert.equal(wrong, `${from} imports nowhere/pages.ts. ${reason}`)
    }
  }
})

test('walls refuse imports that were once made by mistake', () => {
  const wrong = (from: string, to: string) => findWrongImports([{ from: `src/${from}`, to: `src/${to}`, isTypeOnly: false }]).length
  assert.equal(wrong('orders/routes.ts', 'mail/mailer.ts'), 1)
  assert.equal(wrong('orders/routes.ts', 'catalogue/page-cache.ts'), 1)
  assert.equal(wrong('orders/routes.ts', 'catalogue/stock.ts'), 0)
  assert.equal(wrong('orders/events.ts', 'db/pool.ts'), 1)
  assert.equal(wrong('mail/mailer.ts', 'webhooks/webhook-sender.ts'), 1)
  assert.equal(wrong('lake/lake-sink.ts', 'orders/orders.ts'), 1)
  assert.equal(wrong('http/server.ts', 'auth/users.ts'), 1)
  assert.equal(wrong('db/pool.ts', 'config.ts'), 1)
  assert.equal(wrong('app/readiness.ts', 'cli/serve.ts'), 1)
  assert.equal(wrong('somewhere/new.ts', 'errors.ts'), 1)
})

test('a type may be imported from any room, a package only where its rule allows it', () => {
  const [type, both] = ['import type { A } from "../mail/a.ts"', 'import { type A, b } from "../mail/a.ts"'].map((source) =>
    readImports('src/orders/x.ts', source),
  )
  assert.deepEqual(findWrongImports(type?.imports ?? []), [])
  assert.equal(findWrongImports(both?.imports ?? []).length, 1)
  const { packages } = readImports('src/orders/x.ts', 'import { Counter } from "prom-client"\nimport type { FastifyReply } from "fastify"')
  assert.deepEqual(packages, [{ from: 'src/orders/x.ts', name: 'prom-client' }])
  assert.match(findWrongImports([], packages)[0] ?? '', /callbacks/)
})

test('finds imports in every form, and cycles of types', () => {
  const forms = 'import "./a.ts"\nexport { b } from "./b.ts"\nexport * from "./c.ts"\nconst d = await import("./d.ts")'
  assert.deepEqual(
    readImports('src/orders/x.ts', forms).imports.map(({ to }) => to),
    ['src/orders/a.ts', 'src/orders/b.ts', 'src/orders/c.ts', 'src/orders/d.ts'],
  )
  const edge = (from: string, to: string) => ({ from, to, isTypeOnly: true })
  assert.deepEqual(findCycles([edge('a', 'b'), edge('b', 'c'), edge('c', 'b'), edge('a', 'c')]), [['b', 'c', 'b']])
})

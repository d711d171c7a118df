import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { freePort } from '../test/free-port.ts'
import type { Load } from './http-load.ts'

const ROUNDS = 5
const SECONDS = 2
const CONNECTIONS = 32
const PATH = '/products?limit=20'
const script = (name: string) => new URL(name, import.meta.url).pathname

/**
 * `GET /products`, a page of 20 of the sample catalogue: from memory, as 304, and cold, beside bare node:http that sends the same
 * bytes. Server and client have a process each; rounds alternate, so that a busy machine is busy for all. Ratios are medians.
 */
export async function run(): Promise<void> {
  for (const level of ['silent', 'info']) {
    const store = await startStore(level)
    const children: ChildProcess[] = []
    try {
      const page = await fetch(`http://127.0.0.1:${store.port}${PATH}`, { headers: { 'accept-encoding': 'identity' } })
      const body = await page.text()
      const etag = page.headers.get('etag') ?? ''
      // Node adds these itself.
      const own = new Set(['date', 'connection', 'keep-alive', 'transfer-encoding'])
      const sent = [...page.headers].filter(([name]) => !own.has(name))
      const without = sent.filter(([name]) => name !== 'content-length' && name !== 'content-type')
      const bare = await startServer(children, { status: 200, headers: sent.flat(), body })
      const bare304 = await startServer(children, { status: 304, headers: without.flat(), body: null })
      const common = { connections: CONNECTIONS, seconds: SECONDS }
      const get = (port: number): Load => ({ ...common, port, path: PATH, headers: {}, status: 200 })
      const conditional = (port: number): Load => ({ ...common, port, path: PATH, headers: { 'if-none-match': etag }, status: 304 })
      const cold = (round: number): Load => ({ ...get(store.port), path: `${PATH}&max_price=9${round}00000#` })

      const rates: Record<string, number[]> = { bare: [], warm: [], bare304: [], '304': [], cold: [] }
      await load(get(store.port))
      for (let round = 0; round < ROUNDS; round++) {
        rates.bare?.push(await load(get(bare)))
        rates.warm?.push(await load(get(store.port)))
        rates.bare304?.push(await load(conditional(bare304)))
        rates['304']?.push(await load(conditional(store.port)))
        rates.cold?.push(await load(cold(round)))
      }
      const { bare: floor = [], warm = [], bare304: floor304 = [], '304': notModified = [], cold: made = [] } = rates
      console.log(
        `\nLOG_LEVEL=${level}, ${body.length} bytes, ${CONNECTIONS} connections, ${ROUNDS} rounds of ${SECONDS} s; requests/s, medians`,
      )
      console.table({
        warm: { store: round(median(warm)), 'bare node:http': round(median(floor)), ratio: ratio(warm, floor), goal: '>= 0.85' },
        '304': { store: round(median(notModified)), 'bare node:http': round(median(floor304)), ratio: ratio(notModified, floor304) },
        cold: { store: round(median(made)), 'bare node:http': round(median(floor)), ratio: ratio(made, floor) },
      })
    } finally {
      for (const child of children) child.kill()
      await store.stop()
    }
  }
}

async function startStore(level: string) {
  const dataDir = mkdtempSync(join(tmpdir(), 'storefront-bench-'))
  const env = { ...process.env, DATA_DIR: dataDir, PORT: '0', OPS_PORT: '0', LOG_LEVEL: level, ROLES: 'api', EMBEDDED: 'on' }
  // The port is in the log, or, where there is none, found beforehand.
  const port = await freePort()
  const child = spawn(process.execPath, [script('../bin/storefront.mjs'), 'serve'], {
    env: { ...env, PORT: String(port) },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  for (let tries = 0; tries < 300; tries++) {
    if (await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => null)) break
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  return {
    port,
    async stop() {
      child.kill('SIGTERM')
      await once(child, 'exit')
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

async function startServer(children: ChildProcess[], answer: object): Promise<number> {
  const child = spawn(process.execPath, [script('bare-http.ts'), JSON.stringify(answer)], { stdio: ['ignore', 'pipe', 'inherit'] })
  children.push(child)
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string]
  return Number(line)
}

async function load(what: Load): Promise<number> {
  const { stdout } = await promisify(execFile)(process.execPath, [script('http-load.ts'), JSON.stringify(what)])
  return Number(stdout)
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

/** The median of the rounds' ratios: other load on the machine affects both sides of each. */
function ratio(values: readonly number[], floors: readonly number[]): string {
  return median(values.map((value, index) => value / (floors[index] ?? Number.NaN))).toFixed(2)
}

function round(value: number): string {
  return Math.round(value).toLocaleString('en')
}

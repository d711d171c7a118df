import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

export interface StoreUnderLoad {
  call(method: string, path: string, body?: object): Promise<{ status: number; ms: number; json: () => never }>
  stop(): Promise<void>
}

/** The product as `npm start` runs it, in a separate process and data folder, without rate limits. */
export async function startStoreUnderLoad(env: Record<string, string> = {}): Promise<StoreUnderLoad> {
  const dataDir = mkdtempSync(join(tmpdir(), 'storefront-bench-'))
  const bin = new URL('../bin/storefront.mjs', import.meta.url).pathname
  const settings = { ...process.env, DATA_DIR: dataDir, PORT: '0', OPS_PORT: '0', RATE_LIMITS: 'off', LOG_LEVEL: 'info', ...env }
  const child = spawn(process.execPath, [bin, 'serve'], { env: settings, stdio: ['ignore', 'pipe', 'inherit'] })
  const port = await portOf(child)
  const agent = new Agent({ keepAlive: true, maxSockets: 256 })
  return {
    call: (method, path, body) => send(agent, port, method, path, body),
    async stop() {
      agent.destroy()
      child.kill('SIGTERM')
      await once(child, 'exit')
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

async function portOf(child: ChildProcess): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  child.once('exit', () => reject(new Error('the store did not start')))
  if (child.stdout !== null) {
    createInterface(child.stdout).on('line', (line) => {
      const { addresses } = JSON.parse(line) as { addresses?: { port: number }[] }
      if (addresses?.[0] !== undefined) resolve(addresses[0].port)
    })
  }
  return promise
}

function send(agent: Agent, port: number, method: string, path: string, body?: object) {
  const began = performance.now()
  const payload = body === undefined ? undefined : JSON.stringify(body)
  const headers = payload === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(payload) }
  return new Promise<{ status: number; ms: number; json: () => never }>((resolve, reject) => {
    const sent = request({ agent, port, host: '127.0.0.1', method, path, headers }, (answer) => {
      const chunks: Buffer[] = []
      answer.on('data', (chunk: Buffer) => chunks.push(chunk))
      answer.on('error', reject)
      answer.on('end', () =>
        resolve({
          status: answer.statusCode ?? 0,
          ms: performance.now() - began,
          json: () => JSON.parse(Buffer.concat(chunks).toString()) as never,
        }),
      )
    })
    sent.on('error', reject)
    sent.end(payload)
  })
}

/** Starts `work` `perSecond` times a second, whether or not earlier ones have ended, and waits for all. Returns their times in ms. */
export async function atRate(perSecond: number, seconds: number, work: (i: number) => Promise<number>): Promise<number[]> {
  const began = performance.now()
  const total = perSecond * seconds
  const running: Promise<number>[] = []
  while (running.length < total) {
    const due = Math.min(total, Math.floor(((performance.now() - began) / 1000) * perSecond) + 1)
    while (running.length < due) running.push(work(running.length))
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  return Promise.all(running)
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

import { spawn } from 'node:child_process'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'
import { missingProgram, PROGRAM_PATH } from './programs.ts'

const VCL = new URL('../deploy/varnish/', import.meta.url)

/** Why tests with Varnish are skipped here, false where they run. With CI=true they run or fail. */
export const varnishMissing = missingProgram('varnishd', 'varnish')

export interface Varnish {
  url: string
}

/** A real Varnish with the shipped VCL in front of backends on two local ports, or on one port for both. `purger`: the address that may purge. */
export async function startVarnish(
  t: Cleanup,
  backendPorts: number | readonly [number, number],
  port?: number,
  purger = '127.0.0.1',
): Promise<Varnish> {
  const folder = mkdtempSync(join(tmpdir(), 'storefront-varnish-'))
  const [first, second] = typeof backendPorts === 'number' ? [backendPorts, backendPorts] : backendPorts
  const addresses = readFileSync(new URL('addresses.vcl', VCL), 'utf8')
  writeFileSync(
    join(folder, 'addresses.vcl'),
    addresses
      .replace('.port = "3000"', `.port = "${first}"`)
      .replace('.port = "3001"', `.port = "${second}"`)
      .replace('  "127.0.0.1";', `  "${purger}";`),
  )
  for (const name of ['default.vcl', 'languages.vcl']) copyFileSync(new URL(name, VCL), join(folder, name))
  port ??= await freePort()
  const args = [
    '-F',
    '-n',
    join(folder, 'work'),
    '-a',
    `127.0.0.1:${port}`,
    '-f',
    join(folder, 'default.vcl'),
    '-s',
    'malloc,32m',
    '-j',
    'none',
  ]
  const child = spawn('varnishd', args, { env: { ...process.env, PATH: PROGRAM_PATH }, stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  child.stderr.on('data', (text) => {
    said += text
  })
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()).once('error', () => resolve()))
  onCleanup(t, async () => {
    child.kill('SIGTERM')
    await exited
    rmSync(folder, { recursive: true, force: true })
  })
  const url = `http://127.0.0.1:${port}`
  await eventually(
    async () => {
      if (child.exitCode !== null) throw new Error(`varnishd ended: ${said}`)
      return (await fetch(`${url}/livez`).catch(() => null))?.ok
    },
    { what: 'Varnish answers' },
  )
  return { url }
}

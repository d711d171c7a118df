import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Cleanup } from './cleanup.ts'
import { type FrontServer, startFrontServer } from './front-server.ts'
import { missingProgram } from './programs.ts'

const VCL = new URL('../deploy/varnish/', import.meta.url)
const readVcl = (name: string) => readFileSync(new URL(name, VCL), 'utf8')

/** Why tests with Varnish are skipped here, false where they run. With CI=true they run or fail. */
export const varnishMissing = missingProgram('varnishd', 'varnish')

export type Varnish = FrontServer

/**
 * A real Varnish with the shipped VCL in front of backends on two local ports, or on one port for both. `purger`: the
 * address that may purge.
 */
export function startVarnish(
  t: Cleanup,
  backendPorts: number | readonly [number, number],
  port?: number,
  purger = '127.0.0.1',
): Promise<Varnish> {
  const [first, second] = typeof backendPorts === 'number' ? [backendPorts, backendPorts] : backendPorts
  const addresses = readVcl('addresses.vcl')
    .replace('.port = "3000"', `.port = "${first}"`)
    .replace('.port = "3001"', `.port = "${second}"`)
    .replace('  "127.0.0.1";', `  "${purger}";`)
  const storage = ['-s', 'malloc,32m', '-j', 'none']
  return startFrontServer(t, {
    program: 'varnishd',
    files: () => ({
      'addresses.vcl': addresses,
      'default.vcl': readVcl('default.vcl'),
      'languages.vcl': readVcl('languages.vcl'),
    }),
    args: (folder, on) => ['-F', '-n', join(folder, 'work'), '-a', `127.0.0.1:${on}`, '-f', join(folder, 'default.vcl'), ...storage],
    port,
  })
}

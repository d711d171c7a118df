import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Cleanup } from './cleanup.ts'
import { missingProgram } from './programs.ts'
import { makeTestFolder } from './test-folder.ts'

const KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
// The system's own configuration would add extensions of its choice.
const CONFIG = '[req]\ndistinguished_name = name\n[name]\n[authority]\nbasicConstraints = critical, CA:true\n'

/** Why a test that needs certificates is skipped; false when they can be made, and in CI. */
export const NO_CERTIFICATES = missingProgram('openssl')

/** Paths of PEM files. */
export interface Certificate {
  certFile: string
  keyFile: string
}

/** A certificate authority that is valid for a day. Its files are deleted after the test. */
export class Authority {
  readonly caFile: string
  readonly #folder: string
  readonly #keyFile: string

  constructor(t: Cleanup) {
    this.#folder = makeTestFolder(t, 'storefront-certificates-')
    this.caFile = this.#path('ca.pem')
    this.#keyFile = this.#path('ca-key.pem')
    writeFileSync(this.#path('openssl.cnf'), CONFIG)
    const { caFile: out } = this
    openssl(
      ['req', '-x509', ...KEY, '-keyout', this.#keyFile, '-out', out, '-days', '1', '-subj', '/CN=authority'],
      ['-config', this.#path('openssl.cnf'), '-extensions', 'authority'],
    )
  }

  /** A certificate for a server under this name or address, or for a client. */
  issue(role: 'server' | 'client', name = 'IP:127.0.0.1'): Certificate {
    const path = (ending: string) => this.#path(`${role}${ending}`)
    const [certFile, keyFile, request, extensions] = [path('.pem'), path('-key.pem'), path('.csr'), path('.ext')]
    writeFileSync(extensions, `extendedKeyUsage = ${role}Auth\n${role === 'server' ? `subjectAltName = ${name}\n` : ''}`)
    openssl(['req', '-new', ...KEY, '-keyout', keyFile, '-out', request, '-subj', `/CN=${role}`, '-config', this.#path('openssl.cnf')])
    openssl(
      ['x509', '-req', '-in', request, '-out', certFile, '-days', '1', '-extfile', extensions],
      ['-CA', this.caFile, '-CAkey', this.#keyFile, '-CAcreateserial'],
    )
    return { certFile, keyFile }
  }

  #path(name: string): string {
    return join(this.#folder, name)
  }
}

function openssl(...args: string[][]): void {
  execFileSync('openssl', args.flat(), { stdio: 'pipe', timeout: 60_000 })
}

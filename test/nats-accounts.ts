import { randomUUID } from 'node:crypto'
import { nkeys } from '@nats-io/transport-node'

type KeyPair = ReturnType<typeof nkeys.createUser>

const UNLIMITED = -1
const LIMITS = { subs: UNLIMITED, data: UNLIMITED, payload: UNLIMITED }
const ACCOUNT_LIMITS = { ...LIMITS, imports: UNLIMITED, exports: UNLIMITED, wildcards: true, conn: UNLIMITED, leaf: UNLIMITED }
const STORAGE_LIMITS = { mem_storage: UNLIMITED, disk_storage: UNLIMITED, streams: UNLIMITED, consumer: UNLIMITED }

export interface Permissions {
  publish: string[]
  subscribe: string[]
}

/** An operator with one account, as `nsc` would create them. */
export class NatsOperator {
  readonly #account = nkeys.createAccount()
  /** For the server's configuration file. */
  readonly config: string

  constructor() {
    const [operator, system] = [nkeys.createOperator(), nkeys.createAccount()]
    const limits = { ...ACCOUNT_LIMITS, ...STORAGE_LIMITS }
    const accounts = [
      [system.getPublicKey(), sign(operator, system, 'SYS', { type: 'account', limits: ACCOUNT_LIMITS })],
      [this.#account.getPublicKey(), sign(operator, this.#account, 'store', { type: 'account', limits })],
    ]
    this.config = `operator: ${sign(operator, operator, 'operator', { type: 'operator' })}
      system_account: ${system.getPublicKey()}
      resolver: MEMORY
      resolver_preload: { ${accounts.map(([key, jwt]) => `${key}: ${jwt}`).join('\n')} }`
  }

  /**
   * The text of a credentials file for a new user of the account. `seedOf`: the key pair whose seed it contains, by
   * default the user's.
   */
  credentials({ publish, subscribe }: Permissions, seedOf?: KeyPair): string {
    const user = nkeys.createUser()
    const jwt = sign(this.#account, user, 'storefront', { type: 'user', ...LIMITS, pub: { allow: publish }, sub: { allow: subscribe } })
    const seed = Buffer.from((seedOf ?? user).getSeed()).toString()
    return `-----BEGIN NATS USER JWT-----
${jwt}
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
${seed}
------END USER NKEY SEED------
`
  }
}

/** A JWT of NATS: claims of version 2, signed with the issuer's NKey. */
function sign(issuer: KeyPair, subject: KeyPair, name: string, claims: object): string {
  const [iss, sub] = [issuer.getPublicKey(), subject.getPublicKey()]
  const payload = { jti: randomUUID(), iat: Math.floor(Date.now() / 1_000), iss, sub, name, nats: { ...claims, version: 2 } }
  const text = [{ typ: 'JWT', alg: 'ed25519-nkey' }, payload]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.')
  return `${text}.${Buffer.from(issuer.sign(Buffer.from(text))).toString('base64url')}`
}

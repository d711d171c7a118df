import type { Config } from '../../config.ts'
import { findUnsuitableSettings } from '../warn-about-settings.ts'
import { type Finding, ok, problem, splitRemedy, warning } from './finding.ts'

const MIN_NODE = 26

/** Checks valid settings that do not fit together. `misspelt` lists variable names that resemble a setting's. */
export function examineSettings(config: Config, misspelt: readonly string[], versions: { store: string; node: string }): Finding[] {
  const unsuitable = findUnsuitableSettings(config).map((message) =>
    splitRemedy(message, 'see the table of settings in docs/operate/settings.md'),
  )
  const warnings = [
    ...misspelt.map((line) => warning('settings', line, 'correct the name, or ignore this where another program reads it')),
    ...unsuitable.map(({ found, remedy }) => warning('settings', found, remedy)),
  ]
  const isNew = Number(versions.node.split('.')[0]) >= MIN_NODE
  const found = `Storefront ${versions.store} on Node.js ${versions.node}`
  return [
    isNew
      ? ok('versions', found)
      : problem('versions', found, `run it on Node.js ${MIN_NODE} or later, such as the one that npm ci installs`),
    ...(warnings.length > 0 ? warnings : [ok('settings', 'the settings can be used together')]),
    ...(config.roles.includes('api') ? [examineProxies(config), examineRepeats(config)] : []),
  ]
}

const isOfThisMachine = (baseUrl: string) => ['localhost', '127.0.0.1', '[::1]'].includes(new URL(baseUrl).hostname)

/** Checks the protection against repeated orders, because people press a button twice. */
function examineRepeats({ baseUrl, isIdempotencyKeyRequired, duplicateOrderSeconds }: Config): Finding {
  if (isIdempotencyKeyRequired) return ok('repeats', 'each order has an idempotency key')
  if (duplicateOrderSeconds > 0) return ok('repeats', `the same order can be placed again after ${duplicateOrderSeconds} s`)
  if (isOfThisMachine(baseUrl)) return ok('repeats', 'the same order can be placed twice, as a program does that tries the store')
  const remedy = 'set DUPLICATE_ORDER_SECONDS, such as 600, or IDEMPOTENCY_KEY=required'
  return warning('repeats', 'two clicks on a button that sends no Idempotency-Key are two orders', remedy)
}

/** Checks TRUST_PROXY. The API speaks plain HTTP, so a BASE_URL with https means that there is a proxy. */
function examineProxies({ baseUrl, isBaseUrlGiven, trustProxy }: Config): Finding {
  const { protocol } = new URL(baseUrl)
  if (protocol === 'https:' && trustProxy === false) {
    const remedy = 'set TRUST_PROXY to the addresses of the proxies, or to their number'
    return warning('proxies', 'BASE_URL is https, and no proxy is trusted: all clients share one rate limit', remedy)
  }
  if (trustProxy !== false && (!isBaseUrlGiven || isOfThisMachine(baseUrl)))
    return warning('proxies', `TRUST_PROXY is set, and BASE_URL is ${baseUrl}`, 'set BASE_URL to the address that clients use')
  if (protocol === 'http:' && !isOfThisMachine(baseUrl))
    return warning(
      'proxies',
      'BASE_URL is plain http: passwords and tokens can be read on the way',
      'put TLS in front, and set BASE_URL to https',
    )
  const trusted =
    trustProxy === false ? 'no proxy is trusted' : `trusted: ${Array.isArray(trustProxy) ? trustProxy.join(', ') : trustProxy}`
  return ok('proxies', `BASE_URL is ${baseUrl}, ${trusted}`)
}

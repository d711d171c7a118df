import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

// Prints the bill of materials of what runs (CycloneDX), from the lock file only. `npm sbom --omit dev` is not enough:
// npm 11 lists a package once, and leaves it out when one of its places is below a development package.
const root = fileURLToPath(new URL('..', import.meta.url))
const args = ['sbom', '--package-lock-only', '--sbom-format', 'cyclonedx']
const bill = JSON.parse(
  execFileSync('npm', args, { cwd: root, encoding: 'utf8', maxBuffer: 100_000_000, stdio: ['ignore', 'pipe', 'inherit'] }),
)
const { packages } = JSON.parse(readFileSync(`${root}package-lock.json`, 'utf8'))

interface Component {
  'bom-ref': string
  properties: { name: string }[]
}
const running = Object.entries<{ version?: string; dev?: boolean }>(packages).flatMap(([path, { version, dev }]) =>
  dev === true || !path.includes('node_modules/') ? [] : `${path.replace(/^.*node_modules\//, '')}@${version}`,
)
const refs = new Set([bill.metadata.component['bom-ref'], ...running])
const components = (bill.components as Component[])
  .filter((component) => refs.has(component['bom-ref']))
  .map((component) => ({
    ...component,
    scope: 'required',
    properties: component.properties.filter(({ name }) => name !== 'cdx:npm:package:development'),
  }))
const dependencies = (bill.dependencies as { ref: string; dependsOn: string[] }[])
  .filter(({ ref }) => refs.has(ref))
  .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((one) => refs.has(one)) }))
console.log(JSON.stringify({ ...bill, components, dependencies }, null, 2))

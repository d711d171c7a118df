import assert from 'node:assert/strict'
import { once } from 'node:events'
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import type { DataFolder } from '../src/db/embedded/data-folder.ts'
import { makeDataFolder, serverProcesses, untilNoServer } from './data-folders.ts'
import { eventually } from './eventually.ts'
import { launch, serve } from './store-process.ts'

const isRoot = process.getuid?.() === 0
const NOBODY = 65_534
/** A uid without a name. */
const NAMELESS = 4_242
const NOT_ROOT = !isRoot && 'only root can start a store as another user'

/** What a first start has made, in the order in which it does. */
const MOMENTS: Record<string, (folder: DataFolder, log: string) => boolean> = {
  'its folder exists': ({ path }) => existsSync(path),
  'the folder is locked': ({ path }) => existsSync(join(path, 'lock')),
  'it is marked as new': ({ path }) => existsSync(join(path, 'first-start')),
  'there is a folder for the cluster': ({ path }) => existsSync(join(path, 'postgres.new')),
  'there is a password': ({ path }) => existsSync(join(path, 'postgres-password')),
  'initdb has its password': ({ path }) => existsSync(join(path, 'postgres.new/password')),
  'initdb has begun': (folder) => hasDraft(folder, '.'),
  'initdb has made PG_VERSION': (folder) => hasDraft(folder, 'PG_VERSION'),
  'initdb has made the configuration': (folder) => hasDraft(folder, 'postgresql.conf'),
  'initdb has made pg_control': (folder) => hasDraft(folder, 'global/pg_control'),
  'initdb has made a catalogue': (folder) => hasDraft(folder, 'base/1/1259'),
  'initdb has made template0': (folder) => hasDraft(folder, 'base/4'),
  'initdb has made the database postgres': (folder) => hasDraft(folder, 'base/5'),
  'the cluster is in place': ({ cluster }) => existsSync(cluster),
  'the server has begun to start': ({ cluster }) => existsSync(join(cluster, 'postmaster.pid')),
  'the server answers': ({ cluster }) => /^ready/m.test(readIfThere(join(cluster, 'postmaster.pid'))),
  'the store has a database': ({ cluster }) => existsSync(join(cluster, 'base')) && readdirSync(join(cluster, 'base')).length > 3,
  'the schema is there': (_, log) => log.includes('migrated the database'),
  'the sample catalogue is there': (_, log) => log.includes('loaded the sample catalogue'),
  'the store answers': (_, log) => log.includes('Storefront answers'),
}

function hasDraft({ path }: DataFolder, name: string): boolean {
  const draft = join(path, 'postgres.new')
  return existsSync(draft) && readdirSync(draft).some((folder) => folder !== 'password' && existsSync(join(draft, folder, name)))
}

function readIfThere(file: string): string {
  return existsSync(file) ? readFileSync(file, 'utf8') : ''
}

/** A data folder that does not exist yet, in a folder that the user may write to. */
function folderFor(t: TestContext, uid: number | undefined): DataFolder {
  const folder = makeDataFolder(t)
  if (uid !== undefined) chownSync(dirname(folder.path), uid, uid)
  return folder
}

async function killAt(folder: DataFolder, isMoment: (typeof MOMENTS)[string], user: { uid?: number }): Promise<void> {
  const child = launch(['serve'], { env: { DATA_DIR: folder.path }, ...user })
  let log = ''
  child.stdout?.setEncoding('utf8').on('data', (text) => {
    log += text
  })
  child.stderr?.setEncoding('utf8').on('data', (text) => {
    log += text
  })
  const exited = once(child, 'exit')
  while (!isMoment(folder, log)) {
    assert.equal(child.exitCode, null, log)
    // Two milliseconds are shorter than the way from one moment to the next, and leave the processor to the store.
    await delay(2)
  }
  child.kill('SIGKILL')
  await exited
}

for (const [who, user, skip] of [
  ['root', {}, NOT_ROOT],
  ['an ordinary user', isRoot ? { uid: NOBODY } : {}, false],
] as const) {
  describe(`a first start of ${who} that is killed is followed by one that succeeds, when`, { skip, concurrency: 2 }, () => {
    // Where root has tried each of them, a few show that another user is no exception.
    const moments = Object.entries(MOMENTS).filter((_, index) => !('uid' in user) || index % 4 === 1)
    for (const [moment, isMoment] of moments) {
      test(moment, async (t) => {
        const folder = folderFor(t, 'uid' in user ? user.uid : undefined)
        await killAt(folder, isMoment, user)
        const store = await serve(t, { env: { DATA_DIR: folder.path }, ...user })
        const { data } = (await (await fetch(`${store.url}/products`)).json()) as { data: unknown[] }
        assert.ok(data.length > 0, 'the sample catalogue')
        await store.end('SIGKILL')
        assert.deepEqual(
          readdirSync(folder.path).filter((name) => name.includes('.new') || name === 'first-start'),
          [],
        )
        await untilNoServer(folder.path)
      })
    }
  })
}

test('starts as a user without a name or a home', { skip: NOT_ROOT }, async (t) => {
  const folder = folderFor(t, NAMELESS)
  const env = { DATA_DIR: folder.path, HOME: undefined as unknown as string, TMPDIR: '/tmp' }
  const store = await serve(t, { env, uid: NAMELESS })
  assert.equal((await fetch(`${store.url}/products`)).status, 200)
  assert.equal(await store.end('SIGTERM'), 0)
})

test('names the remedy where a user without a name can borrow none', { skip: NOT_ROOT }, async (t) => {
  const folder = folderFor(t, NAMELESS)
  // No unshare is on this path.
  const programs = join(dirname(folder.path), 'bin')
  mkdirSync(programs)
  chmodSync(programs, 0o755)
  const child = launch(['serve'], { env: { DATA_DIR: folder.path, PATH: programs }, uid: NAMELESS })
  let printed = ''
  child.stderr?.setEncoding('utf8').on('data', (text) => {
    printed += text
  })
  const [status] = await once(child, 'close')
  assert.equal(status, 1)
  assert.match(
    printed,
    /^storefront: uid 4242 has no name [^\n]* add the line storefront:x:4242:4242::\/:\/bin\/sh to \/etc\/passwd, [^\n]* or set DATABASE_URL\n$/,
  )
  await eventually(async () => serverProcesses(folder.path).length === 0)
})

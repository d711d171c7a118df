import assert from 'node:assert/strict'
import { mkdir, readdir, readFile, utimes, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { describe, test } from 'node:test'
import { LakeFileGone, type LakeStore } from '../../src/lake/lake-store.ts'
import type { MakeLake } from '../lake-stores.ts'

const FOLDER = 'orders/ingest_date=2026-03-01'

async function put(store: LakeStore, name: string, text: string): Promise<'stored' | 'taken'> {
  return store.withWorkspace(async (folder) => {
    await writeFile(join(folder, 'file'), text)
    return store.put(name, join(folder, 'file'))
  })
}

async function read(store: LakeStore, name: string, options?: { isFresh?: boolean }): Promise<string> {
  const files = (await store.list(name)).filter((file) => file.name === name)
  return store.withCopies(files, async ([path = '']) => readFile(path, 'utf8'), options)
}

const namesOf = async (listing: Promise<{ name: string }[]>) => (await listing).map(({ name }) => name)

/** The suite that every adapter of LakeStore must pass. */
export function lakeStoreConformance(kind: string, makeLake: MakeLake): void {
  describe(kind, () => {
    writing(makeLake)
    reading(makeLake)
  })
}

function writing(makeLake: MakeLake): void {
  test('publishes a file under its name with its bytes', async (t) => {
    const { store } = await makeLake(t)
    assert.equal(await put(store, `${FOLDER}/a.parquet`, 'one'), 'stored')
    assert.equal(await read(store, `${FOLDER}/a.parquet`), 'one')
  })

  test('never replaces a file by another one, and accepts the same bytes again as stored', async (t) => {
    const { store } = await makeLake(t)
    await put(store, `${FOLDER}/a.parquet`, 'one')
    assert.equal(await put(store, `${FOLDER}/a.parquet`, 'two'), 'taken')
    assert.equal(await put(store, `${FOLDER}/a.parquet`, 'one'), 'stored')
    assert.equal(await read(store, `${FOLDER}/a.parquet`), 'one')
  })

  test('publishes one of two files with the same name at once', async (t) => {
    const { store, connect } = await makeLake(t)
    const other = await connect()
    for (let round = 0; round < 5; round++) {
      const name = `${FOLDER}/${round}.parquet`
      const results = await Promise.all([put(store, name, 'one'), put(other, name, 'two')])
      assert.deepEqual(results.toSorted(), ['stored', 'taken'])
      assert.equal(await read(other, name), results[0] === 'stored' ? 'one' : 'two')
    }
  })

  test('replaces a hint, and reads it without a copy', async (t) => {
    const { store } = await makeLake(t)
    const replace = (text: string) =>
      store.withWorkspace(async (folder) => {
        await writeFile(join(folder, 'file'), text)
        await store.replace('iceberg/a/hint.text', join(folder, 'file'))
      })
    await assert.rejects(store.read('iceberg/a/hint.text'), LakeFileGone)
    await replace('1')
    await replace('22')
    assert.equal(Buffer.from(await store.read('iceberg/a/hint.text')).toString(), '22')
    assert.deepEqual(await namesOf(store.list('iceberg/')), [], 'a hint is in no listing')
  })

  test('deletes a file, also one that is already gone', async (t) => {
    const { store } = await makeLake(t)
    await put(store, `${FOLDER}/a.parquet`, 'one')
    await put(store, `${FOLDER}/b.parquet`, 'two')
    await store.delete(`${FOLDER}/a.parquet`)
    await store.delete(`${FOLDER}/a.parquet`)
    assert.deepEqual(await namesOf(store.list('orders/')), [`${FOLDER}/b.parquet`])
    assert.equal(await put(store, `${FOLDER}/a.parquet`, 'three'), 'stored')
  })

  test('copies a file aside, once or twice, and leaves the original', async (t) => {
    const { store, readObject } = await makeLake(t)
    const name = `${FOLDER}/a.parquet`
    await put(store, name, 'bytes')
    const aside = await store.quarantineCopy(name)
    assert.equal(await store.quarantineCopy(name), aside)
    assert.equal(aside, `${store.locate(name)}.corrupt`)
    assert.deepEqual([await readObject(name), await readObject(`${name}.corrupt`)], ['bytes', 'bytes'])
    await store.delete(name)
    assert.equal(await readObject(`${name}.corrupt`), 'bytes')
    assert.deepEqual(await store.list(''), [])
  })

  test('sets a file aside, with its bytes, where no listing finds it', async (t) => {
    const { store, readObject } = await makeLake(t)
    await put(store, `${FOLDER}/a.parquet`, 'half a fi')
    const aside = await store.quarantine(`${FOLDER}/a.parquet`)
    assert.equal(aside, store.locate(`${FOLDER}/a.parquet.corrupt`))
    assert.deepEqual(await store.list('orders/'), [])
    assert.equal(await readObject(`${FOLDER}/a.parquet.corrupt`), 'half a fi')
  })

  test('keeps each damaged file of a name, with a number', async (t) => {
    const { store, readObject } = await makeLake(t)
    const name = `${FOLDER}/a.parquet`
    for (const bytes of ['one', 'two', 'three']) {
      await put(store, name, bytes)
      await store.quarantine(name)
    }
    await put(store, name, 'two')
    assert.equal(await store.quarantineCopy(name), store.locate(`${name}.1.corrupt`))
    const kept = await Promise.all(['', '.1', '.2'].map((number) => readObject(`${name}${number}.corrupt`)))
    assert.deepEqual(kept, ['one', 'two', 'three'])
    assert.deepEqual(await namesOf(store.list('orders/')), [name])
  })

  test('removes a workspace after the work, and day-old ones of killed processes', async (t) => {
    const { store, workspaces } = await makeLake(t)
    await store.withWorkspace(async (kept) => {
      const left = join(workspaces, 'left')
      await mkdir(join(left, 'x.spill'), { recursive: true })
      const yesterday = new Date(Date.now() - 86_500_000)
      await utimes(left, yesterday, yesterday)
      await writeFile(join(kept, 'file'), '')
      await store.removeOldWorkspaces()
      assert.deepEqual(await readdir(workspaces), [basename(kept)])
      assert.deepEqual(await readdir(kept), ['file'])
    })
    assert.deepEqual(await readdir(workspaces), [])
  })
}

function reading(makeLake: MakeLake): void {
  test('lists any number of complete files by name, with a prefix', async (t) => {
    const { store } = await makeLake(t)
    assert.deepEqual(await store.list('orders/'), [])
    const names = ['01/a', '01/b', '01/c.1', '02/a', '02/b', '10/a'].map((name) => `orders/ingest_date=2026-03-${name}.parquet`)
    for (const name of names.toReversed()) await put(store, name, name)
    await put(store, '.pending/a.parquet', '')
    await put(store, `${FOLDER}/notes.txt`, '')
    assert.deepEqual(await namesOf(store.list('orders/')), names)
    assert.deepEqual(await namesOf(store.list('orders/ingest_date=2026-03-0')), names.slice(0, 5))
    assert.deepEqual(await namesOf(store.list('.pending/')), ['.pending/a.parquet'])
  })

  test('reports size and time', async (t) => {
    const { store } = await makeLake(t)
    const before = Date.now()
    const name = `${FOLDER}/a.parquet`
    await put(store, name, 'four')
    const [file] = await store.list(name)
    assert.equal(file?.sizeBytes, 4)
    assert.ok(Math.abs((file?.storedAt ?? 0) - before) < 60_000)
  })

  test('returns copies in the requested order, under paths that contain the ingest date', async (t) => {
    const { store } = await makeLake(t)
    const names = ['orders/ingest_date=2026-03-02/b.parquet', `${FOLDER}/a.parquet`]
    for (const name of names) await put(store, name, name)
    const files = (await store.list('orders/')).toReversed()
    const texts = await store.withCopies(files, async (paths) => {
      for (const [index, path] of paths.entries()) assert.ok(path.endsWith(names[index] ?? '-'), path)
      return Promise.all(paths.map((path) => readFile(path, 'utf8')))
    })
    assert.deepEqual(texts, names)
  })

  test('throws when a file is gone before or while it is read', async (t) => {
    const { store, isRemote } = await makeLake(t)
    await put(store, `${FOLDER}/a.parquet`, 'one')
    const files = await store.list('orders/')
    const during = store.withCopies(files, async ([path = '']) => {
      await store.delete(`${FOLDER}/a.parquet`)
      return isRemote ? readFile(path, 'utf8') : null
    })
    // A copy outlives its original.
    if (isRemote) assert.equal(await during, 'one')
    else await assert.rejects(during, LakeFileGone)
    await assert.rejects(
      store.withCopies(files, async () => {}, { isFresh: true }),
      LakeFileGone,
    )
  })
}

import { commitFiles, readSnapshot } from '../src/lake/iceberg/event-table.ts'
import type { LakeStore } from '../src/lake/lake-store.ts'

type Step = `${'before' | 'after'} ${'put' | 'delete' | 'list' | 'withCopies' | 'quarantineCopy'}`
const STEPS = ['put', 'delete', 'list', 'withCopies', 'quarantineCopy']

/** The store, with `at` awaited around each of its steps: to stop there, to do something meanwhile, or to fail. */
export function watchSteps(store: LakeStore, at: (step: Step, name: string) => Promise<void> | void): LakeStore {
  return new Proxy(store, {
    get(target, property: keyof LakeStore & string) {
      const method = target[property].bind(target) as (...values: unknown[]) => Promise<unknown>
      if (!STEPS.includes(property)) return method
      return async (...values: unknown[]) => {
        const name = typeof values[0] === 'string' ? values[0] : ''
        await at(`before ${property}` as Step, name)
        const result = await method(...values)
        await at(`after ${property}` as Step, name)
        return result
      }
    },
  })
}

/** The store, in which another process deletes the files of orders that no snapshot has before the first commit. */
export function deleteUnused(store: LakeStore): LakeStore {
  let isDone = false
  return watchSteps(store, async (step, name) => {
    if (isDone || step !== 'before put' || !/^iceberg.*\/v\d+\.metadata\.json$/.test(name)) return
    const listed = await store.list('orders/')
    const snapshot = await readSnapshot(store, 'orders')
    const used = new Set(snapshot.files.map((file) => file.name))
    const unused = listed.filter((file) => !used.has(file.name))
    if (unused.length === 0) return
    isDone = true
    await commitFiles(snapshot, { added: [] }, new Date())
    for (const file of unused) await store.delete(file.name)
  })
}

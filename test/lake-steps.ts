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

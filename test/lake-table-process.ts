import { hookLakeSteps } from '../faults/lake-hooks.ts'

// Merges in the lake of a folder, and kills itself at a step of lake-hooks.ts.
const [directory = '', fault = ''] = process.argv.slice(2)
hookLakeSteps((step) => {
  if (step === fault) process.kill(process.pid, 'SIGKILL')
})

const { LocalLakeStore } = await import('../src/lake/local-store.ts')
const { compactLake } = await import('../src/lake/compact-lake.ts')
const { writeDerivedTables } = await import('../src/lake/iceberg/write-derived-tables.ts')
const store = new LocalLakeStore(directory)
await compactLake({ store, isWanted: () => true })
await writeDerivedTables(store)

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CATALOGUE_TABLES, nameMappingOf, schemaOf } from './lake-table.ts'

// If an id changed, readers would take one column for another in existing files.
test('each column of a table has a field id of its own', () => {
  for (const table of CATALOGUE_TABLES) {
    const ids = JSON.stringify(schemaOf(table)).match(/"(?:id|element-id)":\d+/g) ?? []
    assert.equal(new Set(ids.map((id) => id.replace(/\D/g, ''))).size, ids.length, table.name)
    assert.deepEqual(
      JSON.parse(nameMappingOf(table)).map(({ names }: { names: string[] }) => names[0]),
      Object.keys(table.columns),
    )
  }
})

import pg from 'pg'
import { dataFolder } from '../src/db/embedded/data-folder.ts'
import { startEmbeddedPostgres } from '../src/db/embedded/embedded-postgres.ts'

// Owns the server of a data folder and commits row after row, naming each on standard output, until it is killed.
const [directory = ''] = process.argv.slice(2)
const server = await startEmbeddedPostgres(dataFolder(directory), { onWarning: console.error })
const client = new pg.Client({ connectionString: server.url })
await client.connect()
await client.query('drop table if exists kept')
await client.query('create table kept (number integer)')
for (let number = 1; ; number++) {
  await client.query('insert into kept values ($1)', [number])
  process.stdout.write(`${number}\n`)
}

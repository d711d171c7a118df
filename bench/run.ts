import { readdirSync } from 'node:fs'

// npm run bench -- <name>: runs bench/<name>.ts, which exports `run`.
const [name, ...args] = process.argv.slice(2)
const names = readdirSync(import.meta.dirname).flatMap((file) => (/^([a-z-]+)\.ts$/.exec(file)?.[1] ?? 'run').replace(/^run$/, '') || [])
if (name === undefined || !names.includes(name)) {
  console.error(`usage: npm run bench -- ${names.join('|')}`)
  process.exitCode = 2
} else {
  const { run } = (await import(`./${name}.ts`)) as { run: (args: string[]) => Promise<void> }
  await run(args)
}

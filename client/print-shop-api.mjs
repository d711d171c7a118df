// Prints the part of openapi.json that shops' pages use: without the operations of operators, and the schemas that only they have.
import { readFileSync } from 'node:fs'

const document = JSON.parse(readFileSync(new URL('../openapi.json', import.meta.url), 'utf8'))
for (const path of Object.keys(document.paths)) if (/^\/(admin|iceberg|livez|readyz)(\/|$)/.test(path)) delete document.paths[path]

const used = new Set()
const waiting = [document.paths]
for (let part = waiting.pop(); part !== undefined; part = waiting.pop()) {
  for (const [, name] of JSON.stringify(part).matchAll(/"#\/components\/schemas\/([^"/]+)/g)) {
    if (!used.has(name)) waiting.push(document.components.schemas[name])
    used.add(name)
  }
}
for (const name of Object.keys(document.components.schemas)) if (!used.has(name)) delete document.components.schemas[name]
process.stdout.write(JSON.stringify(document))

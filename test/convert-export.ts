import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Conversion } from '../src/move-in/convert/conversion.ts'
import { type ConvertOptions, findConverter } from '../src/move-in/convert/convert.ts'
import type { Cleanup } from './cleanup.ts'
import { makeTestFolder } from './test-folder.ts'

/** Converts an export of another shop. Returns the lines and the converter's reports. */
export async function convertExport(
  t: Cleanup,
  [shop, what]: readonly [shop: string, what: string],
  content: string,
  options: Partial<ConvertOptions & { variationText: string }> & { now: Date },
) {
  const folder = makeTestFolder(t, 'storefront-convert-')
  const write = (name: string, text: string) => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  const reports: string[] = []
  const conversion = new Conversion((line) => reports.push(line))
  const { variationText, ...others } = options
  const variations = variationText === undefined ? undefined : write('variations.json', variationText)
  const settings = { currency: 'EUR', variations, ...others }
  const text = (await Array.fromAsync(findConverter(shop, what)(write('export', content), conversion, settings))).join('')
  return { reports, refused: conversion.refused, leftOut: conversion.leftOut, text }
}

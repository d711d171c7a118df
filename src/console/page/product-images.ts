import { MAX_IMAGES } from '#product-rules'
import type { components } from '../../../client/src/schema.ts'

type Image = components['schemas']['ProductImage']

/** The store's bounds, for the operator. */
export const IMAGES_HINT =
  `One a line, the first one for lists, at most ${MAX_IMAGES}: the address with https://, then width and height in pixels if known, then what it shows. ` +
  'For example: https://images.example.com/mug.jpg 1200x900 A blue mug on a table'

const SIZE = /^(\d{1,6}|\?)x(\d{1,6}|\?)(?:\s+|$)/

/** One image a line. */
export function formatImages(images: readonly Image[]): string {
  return images
    .map(({ url, alt, width, height }) => {
      // A text that begins like a size needs one in front.
      const hasSize = width !== null || height !== null || SIZE.test(alt)
      return [url, hasSize && `${width ?? '?'}x${height ?? '?'}`, alt].filter(Boolean).join(' ')
    })
    .join('\n')
}

export function readImages(text: string): Image[] {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  return lines.map((line) => {
    const [url = ''] = line.trim().split(/\s/, 1)
    const rest = line.trim().slice(url.length).trim()
    const [all = '', width, height] = SIZE.exec(rest) ?? []
    const pixels = (digits?: string) => (digits === undefined || digits === '?' ? null : Number(digits))
    return { url, alt: rest.slice(all.length), width: pixels(width), height: pixels(height) }
  })
}

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatAttributes, readAttributes } from '../src/console/page/product-attributes.ts'
import { formatImages, readImages } from '../src/console/page/product-images.ts'

const image = (changes: object) => ({ url: 'https://images.example/a.jpg', alt: '', width: null, height: null, ...changes })

test('images are the same after the text of the form', () => {
  const images = [
    ...[image({}), image({ alt: 'A lamp' }), image({ width: 800, height: 600 }), image({ alt: 'A lamp', width: 800, height: 600 })],
    ...[
      image({ width: 1 }),
      image({ height: 2, alt: 'x' }),
      image({ alt: '10x20 frames' }),
      image({ alt: '?x?' }),
      image({ alt: '10x20' }),
    ],
  ]
  assert.deepEqual(readImages(formatImages(images)), images)
  assert.equal(formatImages([image({ alt: 'A lamp', width: 800, height: 600 })]), 'https://images.example/a.jpg 800x600 A lamp')
})

test('reads what an operator types, and leaves addresses to the store', () => {
  assert.deepEqual(readImages(' \n  https://images.example/a.jpg\t 12x34   A lamp \r\njavascript:alert(1)\n'), [
    image({ alt: 'A lamp', width: 12, height: 34 }),
    image({ url: 'javascript:alert(1)' }),
  ])
  assert.deepEqual(readImages(''), [])
})

test('attributes are the same after the text of the form', () => {
  const attributes = {
    ...{
      text: 'wool',
      number: 0.5,
      truth: false,
      digits: '12',
      list: ['red', 'a, "b"', ''],
      none: [],
      like_a_list: '["red"]',
      sale: '[sale]',
    },
    ...{ lines: 'a\nb', empty: '', blanks: ' a ' },
  }
  assert.deepEqual(readAttributes(formatAttributes(attributes)), attributes)
  assert.deepEqual(readAttributes('colours: ["red", "blue"]\nsale: [50 % off]'), { colours: ['red', 'blue'], sale: '[50 % off]' })
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { containsLink } from './link-in-text.ts'

test('finds what a mail program turns into a link, even with other dots, slashes, widths or invisible characters', () => {
  for (const text of [
    'Win at http://evil.example/x',
    'HTTPS://evil.example',
    'hxxp://evil.example',
    'http:\\\\evil.example',
    'mailto:eve@evil.example',
    'visit www.evil.example',
    'WWW.evil.example',
    'www2.evil.example',
    'evil.example/prize',
    'evil.co.uk/prize',
    'evil.example?x=1',
    'evil.example:8080',
    '192.0.2.7/prize',
    'bargains at evil.com',
    'evil.com!',
    'Evil.COM',
    'evil-shop.online now',
    'бонус.рф/приз',
    'ｗｗｗ．evil．example',
    'ｈｔｔｐ：／／evil.example',
    'evil。com',
    'evil｡com',
    'evil․com',
    'evil.example∕prize',
    'evil.example⁄prize',
    'ev\u00adil\u200b.c\u2060om',
    'www\u200d.evil.example',
    '𝐞𝐯𝐢𝐥.𝐜𝐨𝐦',
    'x.com',
    'evil-x.com',
    'evil-.com',
    'evil_.com',
    'login.x.com',
    't.co/x',
    'user@evil.io',
    'write to Eve+1@mail.evil.example',
    'user＠evil。io',
    'evil\u034f.com',
    'evil.\ufe0fcom',
    'evil.\u115fcom',
    'evil\ua4f8com',
    'http\ua789//evil.io',
    'http\u2236//evil.io',
  ]) {
    assert.ok(containsLink(text), text)
  }
})

test('accepts the names of people and firms', () => {
  for (const text of [
    'Ada Lovelace',
    'J.R.R. Tolkien',
    'St.John Smith',
    'Dr.med. Anna Müller',
    "Conan O'Brien, Jr.",
    'Meier & Söhne GmbH c/o A. Huber',
    'c/o Huber / Meier',
    'Jean-Luc Dupont s.r.o.',
    'S.p.A. Ferrari',
    'Anna Com. Net',
    'Gal·la Placídia',
    '山田 太郎',
    'Владимир',
    'Attn: Ada',
    'Haus 3/2.Stock',
    'Mr. T',
    'Anna @ Home',
    'Ada @home',
    'A. Com',
    'Müller@Werkstatt',
    'Ed.Comstock',
    'Node.js fan',
    'د. أحمد',
    'می‌خواهم',
  ]) {
    assert.ok(!containsLink(text), text)
  }
})

test('checks names of and above the maximum length quickly', () => {
  const startedAt = performance.now()
  for (const text of [
    'a.'.repeat(100),
    'aa.aa.'.repeat(33),
    'a'.repeat(200),
    `${'aa-'.repeat(66)}.`,
    '1.'.repeat(100),
    'www'.repeat(66),
    '@'.repeat(200),
    'a@.'.repeat(66),
  ]) {
    for (let i = 0; i < 100; i++) containsLink(text)
  }
  assert.ok(performance.now() - startedAt < 800 * 5, 'five milliseconds each would be a hundred times too many')
})

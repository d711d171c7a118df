-- Returns the words of a text, separated by one blank: without accents, in lower case, with compatibility forms
-- replaced. ASCII punctuation separates words, so that a sku such as MUG-1 is found by its parts and no word is a URL
-- or a negative number. The tables are those of Unicode 17: a later version needs a new version of this function and a
-- rewrite of products.search.
create or replace function search_text(text) returns text
  language plpgsql immutable strict parallel safe as $$
declare
  words text;
begin
  if octet_length($1) = char_length($1) and $1 !~ '[\u0001-\u001f\u007f]' then
    return lower(translate($1, '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~', repeat(' ', 32)) collate "C");
  end if;
  -- Signs that normalization would turn into letters of the previous word.
  words := normalize(translate($1, '™℠', '  '), nfkd);
  -- Accents, vowel points, and invisible characters within a word.
  words := regexp_replace(words, '['
    '\u00ad\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u061c'
    '\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u115f\u1160\u17b4\u17b5'
    '\u180b-\u180f\u1abe\u200c-\u200f\u202a-\u202e\u2060-\u206f\u20dd-\u20e0\u20e2-\u20e4\ua670-\ua672'
    '\ufe00-\ufe0f\ufeff\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff'
    ']+', '', 'g');
  -- Punctuation, blanks, control characters, currencies and operators. Other symbols, such as emoji, are words of one
  -- character.
  words := regexp_replace(words, '[\u0001-\u002f:-@\u005b-\u0060\u007b-\u007f'
    '\u0080-\u00ac\u00ae-\u00bf\u00d7\u00f7\u02c2-\u02c5\u02d2-\u02eb\u02ed\u02ef-\u02ff\u0375\u03f6'
    '\u055a-\u055f\u0589\u058a\u058f\u05be\u05c0\u05c3\u05c6\u05f3\u05f4\u0600-\u060d\u061b\u061d-\u061f'
    '\u066a-\u066d\u06d4\u06dd\u0700-\u070d\u070f\u07f7-\u07f9\u07fe\u07ff\u0830-\u083e\u085e\u0888\u0890'
    '\u0891\u08e2\u0964\u0965\u0970\u09f2\u09f3\u09fb\u09fd\u0a76\u0af0\u0af1\u0bf9\u0c77\u0c84\u0df4'
    '\u0e3f\u0e4f\u0e5a\u0e5b\u0f04-\u0f12\u0f14\u0f3a-\u0f3d\u0f85\u0fd0-\u0fd4\u0fd9\u0fda\u104a-\u104f'
    '\u10fb\u1360-\u1368\u1400\u166e\u1680\u169b\u169c\u16eb-\u16ed\u1735\u1736\u17d4-\u17d6\u17d8-\u17db'
    '\u1800-\u180a\u1944\u1945\u1a1e\u1a1f\u1aa0-\u1aa6\u1aa8-\u1aad\u1b4e\u1b4f\u1b5a-\u1b60'
    '\u1b7d-\u1b7f\u1bfc-\u1bff\u1c3b-\u1c3f\u1c7e\u1c7f\u1cc0-\u1cc7\u1cd3\u200b\u2010-\u2029'
    '\u2030-\u205e\u20a0-\u20c1\u2118\u2141-\u2144\u214b\u2cf9-\u2cfc\u2cfe\u2cff\u2d70\u2e00-\u2e2e'
    '\u2e30-\u2e4f\u2e52-\u2e5d\u3001-\u3003\u3008-\u3011\u3014-\u301f\u3030\u303d\u30a0\u30fb\ua4fe'
    '\ua4ff\ua60d-\ua60f\ua673\ua67e\ua6f2-\ua6f7\ua700-\ua716\ua720\ua721\ua789\ua78a\ua838\ua874-\ua877'
    '\ua8ce\ua8cf\ua8f8-\ua8fa\ua8fc\ua92e\ua92f\ua95f\ua9c1-\ua9cd\ua9de\ua9df\uaa5c-\uaa5f\uaade\uaadf'
    '\uaaf0\uaaf1\uab5b\uab6a\uab6b\uabeb\ufbb2-\ufbc2\ufd3e\ufd3f\ufe45\ufe46\ufff9-\ufffb'
    '\U00010100-\U00010102\U0001039f\U000103d0\U0001056f\U00010857\U0001091f\U0001093f'
    '\U00010a50-\U00010a58\U00010a7f\U00010af0-\U00010af6\U00010b39-\U00010b3f\U00010b99-\U00010b9c'
    '\U00010d6e\U00010d8e\U00010d8f\U00010ead\U00010ed0\U00010f55-\U00010f59\U00010f86-\U00010f89'
    '\U00011047-\U0001104d\U000110bb-\U000110c1\U000110cd\U00011140-\U00011143\U00011174\U00011175'
    '\U000111c5-\U000111c8\U000111cd\U000111db\U000111dd-\U000111df\U00011238-\U0001123d\U000112a9'
    '\U000113d4\U000113d5\U000113d7\U000113d8\U0001144b-\U0001144f\U0001145a\U0001145b\U0001145d'
    '\U000114c6\U000115c1-\U000115d7\U00011641-\U00011643\U00011660-\U0001166c\U000116b9'
    '\U0001173c-\U0001173e\U0001183b\U00011944-\U00011946\U000119e2\U00011a3f-\U00011a46'
    '\U00011a9a-\U00011a9c\U00011a9e-\U00011aa2\U00011b00-\U00011b09\U00011be1\U00011c41-\U00011c45'
    '\U00011c70\U00011c71\U00011ef7\U00011ef8\U00011f43-\U00011f4f\U00011fdd-\U00011fe0\U00011fff'
    '\U00012470-\U00012474\U00012ff1\U00012ff2\U00013430-\U0001343f\U00016a6e\U00016a6f\U00016af5'
    '\U00016b37-\U00016b3b\U00016b44\U00016d6d-\U00016d6f\U00016e97-\U00016e9a\U00016fe2\U0001bc9f'
    '\U0001cef0\U0001da87-\U0001da8b\U0001e2ff\U0001e5ff\U0001e95e\U0001e95f\U0001ecb0\U0001eef0'
    '\U0001eef1'
    ']+', ' ', 'g');
  words := lower(regexp_replace(words, '([\u2190-\u2bff\U0001f000-\U0001faff])', ' \1 ', 'g') collate "C");
  -- Letters that Unicode does not decompose, in both cases.
  words := translate(words, 'ØøĐđÐðŁłĦħŦŧıς', 'ooddddllhhttiσ');
  words := replace(replace(replace(replace(words, 'ß', 'ss'), 'ẞ', 'ss'), 'æ', 'ae'), 'Æ', 'ae');
  words := replace(replace(replace(replace(words, 'œ', 'oe'), 'Œ', 'oe'), 'þ', 'th'), 'Þ', 'th');
  if octet_length(words) = char_length(words) then
    return words;
  end if;
  -- A table is used only if the text contains one of its capitals, because translate looks up each character.
  if words ~ '[\u0391-\u03a9]' then
    words := translate(words, 'ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ', 'αβγδεζηθικλμνξοπρστυφχψω');
  end if;
  if words ~ '[\u0400-\u042f]' then
    words := translate(words, 'ЂЄЅІЈЉЊЋЏАБВГДЕЖЗИКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯ', 'ђєѕіјљњћџабвгдежзиклмнопрстуфхцчшщъыьэюя');
  end if;
  if words ~ '[\u0181-\u024f\u1efa-\u1eff\u2c60-\u2c7f\ua722-\ua7ff\u014a]' then
    words := translate(words,
        'ŊƁƂƄƆƇƉƊƋƎƏƐƑƓƔƖƗƘƜƝƟƢƤƦƧƩƬƮƱƲƳƵƷƸƼǤǶǷȜȠȢȤȺȻȽȾɁɃɄɅɆɈɊɌɎỺỼỾⱠⱢⱣⱤⱧⱩⱫⱭⱮⱯⱰⱲⱵⱾⱿꜢꜤꜦꜨꜪꜬꜮꜲꜴꜶꜸꜺꜼꜾꝀꝂꝄꝆꝈꝊꝌꝎꝐꝒꝔꝖꝘ'
        'ꝚꝜꝞꝠꝢꝤꝦꝨꝪꝬꝮꝹꝻꝽꝾꞀꞂꞄꞆꞋꞍꞐꞒꞖꞘꞚꞜꞞꞠꞢꞤꞦꞨꞪꞫꞬꞭꞮꞰꞱꞲꞳꞴꞶꞸꞺꞼꞾꟀꟂꟄꟅꟆꟇꟉꟋꟌ꟎Ꟑ꟒꟔ꟖꟘꟚꟜꟵ',
        'ŋɓƃƅɔƈɖɗƌǝəɛƒɠɣɩɨƙɯɲɵƣƥʀƨʃƭʈʊʋƴƶʒƹƽǥƕƿȝƞȣȥⱥȼƚⱦɂƀʉʌɇɉɋɍɏỻỽỿⱡɫᵽɽⱨⱪⱬɑɱɐɒⱳⱶȿɀꜣꜥꜧꜩꜫꜭꜯꜳꜵꜷꜹꜻꜽꜿꝁꝃꝅꝇꝉꝋꝍꝏꝑꝓꝕꝗꝙ'
        'ꝛꝝꝟꝡꝣꝥꝧꝩꝫꝭꝯꝺꝼᵹꝿꞁꞃꞅꞇꞌɥꞑꞓꞗꞙꞛꞝꞟꞡꞣꞥꞧꞩɦɜɡɬɪʞʇʝꭓꞵꞷꞹꞻꞽꞿꟁꟃꞔʂᶎꟈꟊɤꟍ꟏ꟑꟓꟕꟗꟙꟛƛꟶ'
      );
  end if;
  if words ~ '[\u0370-\u037f\u03cf-\u03ff\u0460-\u052f]' then
    words := translate(words,
        'ͰͲͶͿϏϘϚϜϞϠϢϤϦϨϪϬϮϷϺϽϾϿѠѢѤѦѨѪѬѮѰѲѴѸѺѼѾҀҊҌҎҐҒҔҖҘҚҜҞҠҢҤҦҨҪҬҮҰҲҴҶҸҺҼҾӀӃӅӇӉӋӍӔӘӠӨӶӺӼӾԀԂԄԆԈԊԌԎԐԒԔԖԘԚԜԞԠԢԤԦ'
        'ԨԪԬԮ',
        'ͱͳͷϳϗϙϛϝϟϡϣϥϧϩϫϭϯϸϻͻͼͽѡѣѥѧѩѫѭѯѱѳѵѹѻѽѿҁҋҍҏґғҕҗҙқҝҟҡңҥҧҩҫҭүұҳҵҷҹһҽҿӏӄӆӈӊӌӎӕәӡөӷӻӽӿԁԃԅԇԉԋԍԏԑԓԕԗԙԛԝԟԡԣԥԧ'
        'ԩԫԭԯ'
      );
  end if;
  if words ~ '['
    '\u0531-\u0556\u10a0-\u10c7\u10cd\u13a0-\u13f5\u1c89\u1c90-\u1cba\u1cbd-\u1cbf\u2132\u2183'
    '\u2c00-\u2c2f\u2c80-\u2ce2\u2ceb-\u2ced\u2cf2\ua640-\ua66c\ua680-\ua69a\U00010400-\U00010427'
    '\U000104b0-\U000104d3\U00010570-\U00010595\U00010c80-\U00010cb2\U00010d50-\U00010d65'
    '\U000118a0-\U000118bf\U00016e40-\U00016e5f\U00016ea0-\U00016eb8\U0001e900-\U0001e921'
    ']' then
    words := translate(words,
        'ԱԲԳԴԵԶԷԸԹԺԻԼԽԾԿՀՁՂՃՄՅՆՇՈՉՊՋՌՍՎՏՐՑՒՓՔՕՖႠႡႢႣႤႥႦႧႨႩႪႫႬႭႮႯႰႱႲႳႴႵႶႷႸႹႺႻႼႽႾႿჀჁჂჃჄჅჇჍᎠᎡᎢᎣᎤᎥᎦᎧᎨᎩᎪᎫᎬᎭᎮᎯᎰᎱᎲᎳᎴᎵ'
        'ᎶᎷᎸᎹᎺᎻᎼᎽᎾᎿᏀᏁᏂᏃᏄᏅᏆᏇᏈᏉᏊᏋᏌᏍᏎᏏᏐᏑᏒᏓᏔᏕᏖᏗᏘᏙᏚᏛᏜᏝᏞᏟᏠᏡᏢᏣᏤᏥᏦᏧᏨᏩᏪᏫᏬᏭᏮᏯᏰᏱᏲᏳᏴᏵᲉᲐᲑᲒᲓᲔᲕᲖᲗᲘᲙᲚᲛᲜᲝᲞᲟᲠᲡᲢᲣᲤᲥᲦᲧᲨᲩᲪᲫᲬᲭᲮᲯᲰᲱᲲ'
        'ᲳᲴᲵᲶᲷᲸᲹᲺᲽᲾᲿℲↃⰀⰁⰂⰃⰄⰅⰆⰇⰈⰉⰊⰋⰌⰍⰎⰏⰐⰑⰒⰓⰔⰕⰖⰗⰘⰙⰚⰛⰜⰝⰞⰟⰠⰡⰢⰣⰤⰥⰦⰧⰨⰩⰪⰫⰬⰭⰮⰯⲀⲂⲄⲆⲈⲊⲌⲎⲐⲒⲔⲖⲘⲚⲜⲞⲠⲢⲤⲦⲨⲪⲬⲮⲰⲲⲴⲶⲸⲺⲼⲾⳀⳂⳄⳆⳈⳊⳌ'
        'ⳎⳐⳒⳔⳖⳘⳚⳜⳞⳠⳢⳫⳭⳲꙀꙂꙄꙆꙈꙊꙌꙎꙐꙒꙔꙖꙘꙚꙜꙞꙠꙢꙤꙦꙨꙪꙬꚀꚂꚄꚆꚈꚊꚌꚎꚐꚒꚔꚖꚘꚚ𐐀𐐁𐐂𐐃𐐄𐐅𐐆𐐇𐐈𐐉𐐊𐐋𐐌𐐍𐐎𐐏𐐐𐐑𐐒𐐓𐐔𐐕𐐖𐐗𐐘𐐙𐐚𐐛𐐜𐐝𐐞𐐟𐐠𐐡𐐢𐐣𐐤𐐥𐐦𐐧𐒰𐒱𐒲𐒳𐒴𐒵𐒶𐒷𐒸'
        '𐒹𐒺𐒻𐒼𐒽𐒾𐒿𐓀𐓁𐓂𐓃𐓄𐓅𐓆𐓇𐓈𐓉𐓊𐓋𐓌𐓍𐓎𐓏𐓐𐓑𐓒𐓓𐕰𐕱𐕲𐕳𐕴𐕵𐕶𐕷𐕸𐕹𐕺𐕼𐕽𐕾𐕿𐖀𐖁𐖂𐖃𐖄𐖅𐖆𐖇𐖈𐖉𐖊𐖌𐖍𐖎𐖏𐖐𐖑𐖒𐖔𐖕𐲀𐲁𐲂𐲃𐲄𐲅𐲆𐲇𐲈𐲉𐲊𐲋𐲌𐲍𐲎𐲏𐲐𐲑𐲒𐲓𐲔𐲕𐲖𐲗𐲘𐲙𐲚𐲛𐲜𐲝𐲞𐲟𐲠𐲡𐲢𐲣𐲤𐲥'
        '𐲦𐲧𐲨𐲩𐲪𐲫𐲬𐲭𐲮𐲯𐲰𐲱𐲲𐵐𐵑𐵒𐵓𐵔𐵕𐵖𐵗𐵘𐵙𐵚𐵛𐵜𐵝𐵞𐵟𐵠𐵡𐵢𐵣𐵤𐵥𑢠𑢡𑢢𑢣𑢤𑢥𑢦𑢧𑢨𑢩𑢪𑢫𑢬𑢭𑢮𑢯𑢰𑢱𑢲𑢳𑢴𑢵𑢶𑢷𑢸𑢹𑢺𑢻𑢼𑢽𑢾𑢿𖹀𖹁𖹂𖹃𖹄𖹅𖹆𖹇𖹈𖹉𖹊𖹋𖹌𖹍𖹎𖹏𖹐𖹑𖹒𖹓𖹔𖹕𖹖𖹗𖹘𖹙𖹚𖹛𖹜𖹝𖹞𖹟𖺠'
        '𖺡𖺢𖺣𖺤𖺥𖺦𖺧𖺨𖺩𖺪𖺫𖺬𖺭𖺮𖺯𖺰𖺱𖺲𖺳𖺴𖺵𖺶𖺷𖺸𞤀𞤁𞤂𞤃𞤄𞤅𞤆𞤇𞤈𞤉𞤊𞤋𞤌𞤍𞤎𞤏𞤐𞤑𞤒𞤓𞤔𞤕𞤖𞤗𞤘𞤙𞤚𞤛𞤜𞤝𞤞𞤟𞤠𞤡',
        'աբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտրցւփքօֆⴀⴁⴂⴃⴄⴅⴆⴇⴈⴉⴊⴋⴌⴍⴎⴏⴐⴑⴒⴓⴔⴕⴖⴗⴘⴙⴚⴛⴜⴝⴞⴟⴠⴡⴢⴣⴤⴥⴧⴭꭰꭱꭲꭳꭴꭵꭶꭷꭸꭹꭺꭻꭼꭽꭾꭿꮀꮁꮂꮃꮄꮅ'
        'ꮆꮇꮈꮉꮊꮋꮌꮍꮎꮏꮐꮑꮒꮓꮔꮕꮖꮗꮘꮙꮚꮛꮜꮝꮞꮟꮠꮡꮢꮣꮤꮥꮦꮧꮨꮩꮪꮫꮬꮭꮮꮯꮰꮱꮲꮳꮴꮵꮶꮷꮸꮹꮺꮻꮼꮽꮾꮿᏸᏹᏺᏻᏼᏽᲊაბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰჱჲ'
        'ჳჴჵჶჷჸჹჺჽჾჿⅎↄⰰⰱⰲⰳⰴⰵⰶⰷⰸⰹⰺⰻⰼⰽⰾⰿⱀⱁⱂⱃⱄⱅⱆⱇⱈⱉⱊⱋⱌⱍⱎⱏⱐⱑⱒⱓⱔⱕⱖⱗⱘⱙⱚⱛⱜⱝⱞⱟⲁⲃⲅⲇⲉⲋⲍⲏⲑⲓⲕⲗⲙⲛⲝⲟⲡⲣⲥⲧⲩⲫⲭⲯⲱⲳⲵⲷⲹⲻⲽⲿⳁⳃⳅⳇⳉⳋⳍ'
        'ⳏⳑⳓⳕⳗⳙⳛⳝⳟⳡⳣⳬⳮⳳꙁꙃꙅꙇꙉꙋꙍꙏꙑꙓꙕꙗꙙꙛꙝꙟꙡꙣꙥꙧꙩꙫꙭꚁꚃꚅꚇꚉꚋꚍꚏꚑꚓꚕꚗꚙꚛ𐐨𐐩𐐪𐐫𐐬𐐭𐐮𐐯𐐰𐐱𐐲𐐳𐐴𐐵𐐶𐐷𐐸𐐹𐐺𐐻𐐼𐐽𐐾𐐿𐑀𐑁𐑂𐑃𐑄𐑅𐑆𐑇𐑈𐑉𐑊𐑋𐑌𐑍𐑎𐑏𐓘𐓙𐓚𐓛𐓜𐓝𐓞𐓟𐓠'
        '𐓡𐓢𐓣𐓤𐓥𐓦𐓧𐓨𐓩𐓪𐓫𐓬𐓭𐓮𐓯𐓰𐓱𐓲𐓳𐓴𐓵𐓶𐓷𐓸𐓹𐓺𐓻𐖗𐖘𐖙𐖚𐖛𐖜𐖝𐖞𐖟𐖠𐖡𐖣𐖤𐖥𐖦𐖧𐖨𐖩𐖪𐖫𐖬𐖭𐖮𐖯𐖰𐖱𐖳𐖴𐖵𐖶𐖷𐖸𐖹𐖻𐖼𐳀𐳁𐳂𐳃𐳄𐳅𐳆𐳇𐳈𐳉𐳊𐳋𐳌𐳍𐳎𐳏𐳐𐳑𐳒𐳓𐳔𐳕𐳖𐳗𐳘𐳙𐳚𐳛𐳜𐳝𐳞𐳟𐳠𐳡𐳢𐳣𐳤𐳥'
        '𐳦𐳧𐳨𐳩𐳪𐳫𐳬𐳭𐳮𐳯𐳰𐳱𐳲𐵰𐵱𐵲𐵳𐵴𐵵𐵶𐵷𐵸𐵹𐵺𐵻𐵼𐵽𐵾𐵿𐶀𐶁𐶂𐶃𐶄𐶅𑣀𑣁𑣂𑣃𑣄𑣅𑣆𑣇𑣈𑣉𑣊𑣋𑣌𑣍𑣎𑣏𑣐𑣑𑣒𑣓𑣔𑣕𑣖𑣗𑣘𑣙𑣚𑣛𑣜𑣝𑣞𑣟𖹠𖹡𖹢𖹣𖹤𖹥𖹦𖹧𖹨𖹩𖹪𖹫𖹬𖹭𖹮𖹯𖹰𖹱𖹲𖹳𖹴𖹵𖹶𖹷𖹸𖹹𖹺𖹻𖹼𖹽𖹾𖹿𖺻'
        '𖺼𖺽𖺾𖺿𖻀𖻁𖻂𖻃𖻄𖻅𖻆𖻇𖻈𖻉𖻊𖻋𖻌𖻍𖻎𖻏𖻐𖻑𖻒𖻓𞤢𞤣𞤤𞤥𞤦𞤧𞤨𞤩𞤪𞤫𞤬𞤭𞤮𞤯𞤰𞤱𞤲𞤳𞤴𞤵𞤶𞤷𞤸𞤹𞤺𞤻𞤼𞤽𞤾𞤿𞥀𞥁𞥂𞥃'
      );
  end if;
  return words;
end
$$;

-- Positions count words, as in to_tsvector, which is faster and reads ASCII the same on every server, but makes a
-- number and a word of 3e1x. A lexeme has at most 2,046 bytes: to_tsvector leaves longer words out, so they are cut
-- here.
create or replace function search_vector(words text) returns tsvector
  language plpgsql immutable strict parallel safe as $$
begin
  if octet_length(words) = char_length(words) and words !~ '[0-9]e[0-9]'
      and (octet_length(words) <= 500 or not exists (select from string_to_table(words, ' ') as word where length(word) > 500)) then
    return to_tsvector('pg_catalog.simple', words);
  end if;
  return (
    select coalesce(string_agg('''' || left(word, 500) || ''':' || least(place, 16383), ' '), '')::tsvector
    from string_to_table(words, ' ') with ordinality as split (word, place)
    where word <> ''
  );
end
$$;

-- Adds the spellings of shops and shoppers: `gr49` and `Gr. 49`, `wifi` and `Wi-Fi`, `5,5` and `5.5`, `C++`, words in
-- texts without blanks, and the whole name as one word, so that a product whose name is the search comes first. See
-- docs/decisions/catalogue-search.md.

-- Scripts without blanks between words: Thai, Lao, Burmese, Khmer, Kana and Han, as in search-words.ts.
create or replace function search_unspaced() returns text
  language sql immutable parallel safe
  return '\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u1049\u1780-\u17d3\u3005-\u3007\u3041-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff'
    '\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003fffd';

-- Makes one word each of a number with a decimal separator, a word with its last `+` or `#`, and a size such as `20 ×
-- 30`. Characters of private use replace the signs, which would separate words.
create or replace function search_signs(text) returns text
  language plpgsql immutable strict parallel safe as $$
declare
  signs text := $1;
begin
  if signs ~ '[0-9][.,][0-9]' then
    signs := regexp_replace(signs, '(?<![0-9.,])([0-9]+)[.,]([0-9]+)(?![0-9]|[.,][0-9])', E'\\1\uE000\\2', 'g');
  end if;
  if signs ~ '[^\u0001-@\u005b-\u0060\u007b-\u00bf][+#]' then
    signs := regexp_replace(signs, '(?<=[^\u0001-@\u005b-\u0060\u007b-\u00bf])\+\+(?=[\u0001-/:-@]|$)', E'\uE001\uE001', 'g');
    signs := regexp_replace(signs, '(?<=[^\u0001-@\u005b-\u0060\u007b-\u00bf])\+(?=[\u0001-*,-/:-@]|$)', E'\uE001', 'g');
    signs := regexp_replace(signs, '(?<=[^\u0001-@\u005b-\u0060\u007b-\u00bf])#(?=[\u0001-/:-@]|$)', E'\uE002', 'g');
  end if;
  if signs ~ '[0-9] *[xX×*] *[0-9]' then
    signs := regexp_replace(signs, '(?<=[0-9]) *[xX×*] *(?=[0-9])', 'x', 'g');
  end if;
  return signs;
end
$$;

-- Returns what a text is found by besides its words, from its first 20,000 characters. `words` is search_text of the
-- text. Each step reads only the places that it concerns, because they have few of the words.
create or replace function search_spellings(text, words text) returns text
  language plpgsql immutable strict parallel safe as $$
declare
  most constant integer := 20000;
  letter constant text := '[^\u0001-@\u005b-\u0060\u007b-\u00bf\u2000-\u206f\u3000-\u3020]';
  spellings text := '';
  places text;
begin
  if $1 ~ '[0-9+#]' then
    -- Words with digits or signs, and their neighbours.
    select left(search_text(string_agg(place[1], ' ')), most) into places
    from regexp_matches(search_signs(left($1, most)),
      '((?:(?:[^ \n\r\t0-9]+[ \n\r\t]+)?[^ \n\r\t]*[0-9\uE001\uE002][^ \n\r\t]*(?:[ \n\r\t]+|$))+[^ \n\r\t]*)', 'g') as place;
    -- Letters and digits are also written together.
    spellings := concat_ws(' ', places,
      regexp_replace(places, '([^ 0-9]) +(?=[0-9])', '\1', 'g'),
      regexp_replace(places, '([0-9]) +(?=[^ 0-9])', '\1', 'g'));
  end if;
  if $1 ~ (letter || '[-''’.&_‐‑]' || letter) then
    select left(search_text(string_agg(regexp_replace(place[1], '[-''’.&_‐‑](?=' || letter || ')', '', 'g'), ' ')), most) into places
    from regexp_matches(left($1, most), '(' || letter || '+(?:[-''’.&_‐‑]' || letter || '+)+)', 'g') as place;
    spellings := concat_ws(' ', spellings, places);
  end if;
  if octet_length(words) > char_length(words) and words ~ ('[' || search_unspaced() || ']') then
    spellings := concat_ws(' ', spellings, regexp_replace(left(words, most), '[' || search_unspaced() || ']+', ' ', 'g'), (
      select string_agg(concat_ws(' ', letters.letter, case when letters.following ~ ('[' || search_unspaced() || ']') then letters.letter || letters.following end), ' ')
      from (
        select character as letter, lead(character) over (order by place) as following
        from string_to_table(left(words, most / 4), null) with ordinality as split (character, place)
      ) as letters
      where letters.letter ~ ('[' || search_unspaced() || ']')
    ));
  end if;
  return spellings;
end
$$;

-- Returns at most 120,000 characters: a tsvector has at most 1 MiB, and a character such as U+FDFA becomes 18. Without
-- such characters all texts of a product are shorter. A word of one Han character takes the most, four bytes for each
-- character.
create or replace function catalogue_words(text) returns tsvector
  language plpgsql immutable strict parallel safe as $$
declare
  words text := left(search_text($1), 120000);
  found tsvector := search_vector(words);
  spellings text := search_spellings($1, words);
begin
  if spellings = '' then
    return found;
  end if;
  return found || ts_delete(search_vector(spellings), tsvector_to_array(found));
end
$$;

create or replace function search_option_words(options jsonb) returns text
  language sql immutable strict parallel safe
  return (select coalesce(string_agg(value, ' ' order by key collate "C"), '') from jsonb_each_text(options));

-- Returns a word as pg_trgm reads it on every server: one ASCII letter or digit for each character. Neighbours in an
-- alphabet differ. Characters of different scripts may become the same, so words are compared only within their kind.
create or replace function search_spelling(word text) returns text
  language plpgsql immutable strict parallel safe as $$
begin
  if octet_length(word) = char_length(word) then
    return word;
  end if;
  return (
    select string_agg(
      case when ascii(letter) < 128 then letter else substr('0123456789abcdefghijklmnopqrstuvwxyz', ascii(letter) % 36 + 1, 1) end,
      '' order by place
    )
    from string_to_table(word, null) with ordinality as split (letter, place)
  );
end
$$;

-- Returns the whole name as a word, without blanks and signs and with `=` in front, which no word of a text has. It has
-- no position, so it is neither ranked nor offered for a mistyped word.
create or replace function search_name(name text) returns tsvector
  language sql immutable parallel safe
  return (
    select case when word = '' then '' else array_to_tsvector(array['=' || left(word, 500)]) end
    from (select translate(search_text(search_signs(coalesce(name, ''))), E' \uE000\uE001\uE002', '') as word) as whole
  );

-- Writes the words of a product in its own language. This is a trigger and no generated column, because another
-- expression would rewrite the table. See docs/decisions/catalogue-search.md.
create or replace function product_words(name text, category text, options jsonb, brand text, sku text, description text) returns tsvector
  language sql immutable parallel safe
  return setweight(catalogue_words(name), 'A')
    || setweight(catalogue_words(concat_ws(' ', category, case when options <> '{}' then search_option_words(options) end, brand)), 'B')
    || setweight(catalogue_words(sku), 'C')
    || setweight(catalogue_words(description), 'D')
    || search_name(name);

create or replace function translated_words(name text, category text, options jsonb, sku text, description text, translations jsonb) returns tsvector
  language sql immutable parallel safe
  return (
    select setweight(catalogue_words(concat_ws(' ', name, string_agg(texts ->> 'name', ' ' order by language collate "C"))), 'A')
      -- The same expression as in the column `search`.
      || setweight(catalogue_words(concat_ws(' ', category, search_option_words(options))), 'B')
      || setweight(catalogue_words(sku), 'C')
      || setweight(catalogue_words(concat_ws(' ', description, string_agg(texts ->> 'description', ' ' order by language collate "C"))), 'D')
      || array_to_tsvector(tsvector_to_array(search_name(name)) || coalesce(array_agg(own.word) filter (where own.word is not null), '{}'))
    from jsonb_each(translations) as translation (language, texts)
    left join lateral unnest(tsvector_to_array(search_name(texts ->> 'name'))) as own (word) on true
  );

create or replace function products_set_words() returns trigger
  language plpgsql as $$
begin
  new.search := product_words(new.name, new.category, new.options, new.brand, new.sku, new.description);
  return new;
end
$$;

create or replace function products_translate_words() returns trigger
  language plpgsql
  as $$
begin
  new.translated_search := case
    when new.translations <> '{}'
    then translated_words(new.name, concat_ws(' ', new.category, new.brand), new.options, new.sku, new.description, new.translations)
  end;
  return new;
end
$$;

-- Records every word that a product has or had, also of translations, to offer it for mistyped ones.
create or replace function products_collect_words() returns trigger
  language plpgsql
  as $$
begin
  if tg_op = 'INSERT' then
    insert into search_words (word)
    select distinct entry.lexeme
    from changed
    cross join unnest(ts_filter(coalesce(changed.translated_search, changed.search), '{a,b,d}')) as entry
    where length(entry.lexeme) between 3 and 40 and entry.lexeme !~ '[0-9]'
    -- The order prevents a deadlock of two imports with the same new words.
    order by 1
    on conflict do nothing;
  else
    insert into search_words (word)
    select distinct entry.lexeme
    from changed
    join before on before.id = changed.id
      and (before.search, before.translated_search) is distinct from (changed.search, changed.translated_search)
    cross join unnest(ts_filter(coalesce(changed.translated_search, changed.search), '{a,b,d}')) as entry
    where length(entry.lexeme) between 3 and 40 and entry.lexeme !~ '[0-9]'
    order by 1
    on conflict do nothing;
  end if;
  return null;
end
$$;

-- Returns a text as operators' searches compare it: words of letters and digits that pg_trgm knows, separated by one
-- blank. Apostrophes separate nothing, and symbols such as emoji are left out.
create or replace function search_folded(text) returns text
  language sql immutable strict parallel safe
  return search_spelling(trim(regexp_replace(
    search_text(replace(replace($1, '''', ''), '’', '')), '[ \u2190-\u2bff\U0001f000-\U0001faff]+', ' ', 'g'
  )));

-- Whether a sold product matches. Only the indexes of words are read: a plan that expects a match among the first rows
-- would read the whole catalogue for a word that no product has any more.
create or replace function any_product_matches(query tsquery) returns boolean
  language sql stable parallel safe
  set enable_seqscan = off
  set enable_indexscan = off
as $$
  select exists (
    select from products
    where archived_at is null and ((translated_search is null and search @@ query) or translated_search @@ query)
  )
$$;

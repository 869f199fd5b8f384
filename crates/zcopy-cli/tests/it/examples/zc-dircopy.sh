mkdir card card/a downloads project project/cache
echo one > card/a/1.mov
echo notes > card/notes.txt
echo gone > card/gone.txt
echo file > downloads/file
(cd downloads && sha256sum file > SHA256SUMS)
echo code > project/code
echo junk > project/a.tmp
echo junk > project/cache/b
newest() { ls archive/shasum.*.txt | tail -n 1; }

$ zc-dircopy card archive
test $status = 0
diff -r card archive | grep -v '^Only in archive: shasum' && exit 1
grep -q '  a/1.mov$' "$(newest)"

$ zc-dircopy -i card -o archive -o other/archive
test $status = 0
diff -r card other/archive | grep -v '^Only in other/archive: shasum' && exit 1
(cd other/archive && sha256sum -c --quiet shasum.*.txt)

$ zc-dircopy --check archive
test $status = 0
grep -qx 'a/1.mov: OK' "$out"

echo two > card/a/2.mov
$ zc-dircopy --no-hash-skipped card archive
test $status = 0
cmp card/a/2.mov archive/a/2.mov

echo three > card/a/3.mov
$ zc-dircopy --durable --verify card archive
test $status = 0
cmp card/a/3.mov archive/a/3.mov

printf 'ONE\n' > archive/a/1.mov
touch -r card/a/1.mov archive/a/1.mov
$ zc-dircopy --overwrite-policy update card archive
cmp card/a/1.mov archive/a/1.mov
zc-dircopy --check --silent archive

echo changed > archive/notes.txt
zc-dircopy --check --silent archive > /dev/null 2>&1 && exit 1
$ zc-dircopy --check --accept notes.txt archive
test $status = 0
grep -qx 'notes.txt: OK' "$out"

rm archive/gone.txt
zc-dircopy --check --silent archive > /dev/null 2>&1 && exit 1
$ zc-dircopy --check --forget-missing archive
test $status = 0

$ zc-dircopy --exclude '*.tmp' --exclude cache/ project backup
test $status = 0
test "$(ls backup | grep -v shasum)" = code

$ zc-dircopy --include '*.mov' --include '*/' --exclude '*' card clips
test $status = 0
cmp card/a/1.mov clips/a/1.mov
test ! -e clips/notes.txt

$ zc-dircopy --bwlimit 10MiB project backup
test $status = 0
ls backup/a.tmp

$ zc-dircopy --hash blake3 card archive-b3
test $status = 0
ls archive-b3/b3sum.*.txt
zc-dircopy --check --silent archive-b3

$ zc-dircopy --check --hash-file downloads/SHA256SUMS downloads
test $status = 0
grep -qx 'file: OK' "$out"

truncate -s 80M project/disk.img
$ zc-dircopy --resume project backup
test $status = 0
cmp project/disk.img backup/disk.img

$ zc-dircopy --skip-errors card rescued
test $status = 0
cmp card/a/1.mov rescued/a/1.mov

$ cd archive && sha256sum -c --quiet "$(ls shasum.*.txt | tail -n1)"
test $status = 0
